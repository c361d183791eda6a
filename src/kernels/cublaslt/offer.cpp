// The build side of the cuBLASLt provider: every algorithm that the library proposes for the product on the GPU here.
#include "device/device.h"
#include "kernels/build_notes.h"
#include "kernels/cublaslt/plan.h"

namespace deepjit {

namespace {

constexpr int kMostProposals = 12;

class CublasltOfferer final : public Offerer {
 public:
  std::string name() const override { return "cublaslt"; }
  std::string device() const override { return "cuda"; }
  std::string measured_with() const override {
    const cublaslt::Library* library = cublaslt::find_library();
    return library == nullptr ? "none" : library->version;
  }

  Offer offer(const StepShape& shape) const override {
    Offer out;
    if (!cublaslt::is_product_op(shape.step->op)) return out;  // who else refuses it knows better why
    cublaslt::Product product = cublaslt::product_of(shape);
    out.reason = product.reason;
    if (!out.reason.empty()) return out;
    if (shape.device == nullptr) {
      if (is_for_null_device(shape)) {
        out.reason = "the null device runs no libraries";
      } else {
        out.tactics.push_back(tactic(cublaslt::kHeuristic));
      }
    } else if (cublaslt::find_library() == nullptr) {
      out.reason = std::string(cublaslt::kMissing) + ": " + cublaslt::kInstall;
    } else {
      ask(*shape.device, std::move(product), out);
    }
    return out;
  }

  void pack(const StepShape&, Tactic& tactic) const override { tactic.packed.clear(); }

 private:
  Tactic tactic(const std::string& variant) const {
    Tactic made;
    made.provider = name();
    made.variant = variant;
    return made;
  }

  void ask(device::Device& device, cublaslt::Product product, Offer& out) const {
    try {
      cublaslt::Plan plan(device, std::move(product));
      for (const cublaslt::Algorithm& algorithm : plan.proposals(kMostProposals)) {
        out.tactics.push_back(tactic(to_string(algorithm)));
      }
      if (out.tactics.empty()) out.reason = "cuBLASLt has no algorithm for this product";
    } catch (const Error& e) {
      if (e.code() != Code::INTERNAL) throw;
      out.reason = e.message();
    }
  }
};

}  // namespace

const Offerer& cublaslt_offerer() {
  static const CublasltOfferer offerer;
  return offerer;
}

}  // namespace deepjit
