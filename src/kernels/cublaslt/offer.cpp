// The build side of the cuBLASLt provider: every algorithm that the library proposes for the product on the GPU here.
#include "kernels/cublaslt/plan.h"
#include "kernels/library_offerer.h"

namespace deepjit {

namespace {

constexpr int kMostProposals = 12;

class CublasltOfferer final : public LibraryOfferer {
 public:
  CublasltOfferer()
      : LibraryOfferer({"cublaslt", cublaslt::kHeuristic, cublaslt::kMissing, cublaslt::kInstall,
                        "cuBLASLt has no algorithm for this product"}) {}

  void pack(const StepShape&, Tactic& tactic) const override { tactic.packed.clear(); }

 private:
  std::string library_version() const override {
    const cublaslt::Library* library = cublaslt::find_library();
    return library == nullptr ? "" : library->version;
  }
  bool concerns(const Step& step) const override { return cublaslt::is_product_op(step.op); }
  std::string obstacle(const StepShape& shape) const override { return cublaslt::product_of(shape).reason; }

  std::vector<std::string> proposals(const StepShape& shape) const override {
    cublaslt::Plan plan(*shape.device, cublaslt::product_of(shape));
    std::vector<std::string> variants;
    for (const cublaslt::Algorithm& algorithm : plan.proposals(kMostProposals)) {
      variants.push_back(to_string(algorithm));
    }
    return variants;
  }
};

}  // namespace

const Offerer& cublaslt_offerer() {
  static const CublasltOfferer offerer;
  return offerer;
}

}  // namespace deepjit
