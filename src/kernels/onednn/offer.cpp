// The build side of the oneDNN provider. Offering asks oneDNN which implementations it has at these shapes;
// packing builds the kernel once and keeps the weights it laid out.
#include "kernels/kernel.h"
#include "kernels/onednn/families.h"

namespace deepjit {
namespace {

class OnednnOfferer : public Offerer {
 public:
  std::string name() const override { return "onednn"; }

  std::string version() const override {
    const dnnl_version_t* v = dnnl_version();
    return std::to_string(v->major) + "." + std::to_string(v->minor) + "." + std::to_string(v->patch) + "-4";
  }

  Offer offer(const StepShape& shape) const override {
    Offer result;
    const onednn::Family* family = onednn::find_family(shape.step->op);
    if (family == nullptr) {
      result.reason = shape.step->op + " is not an op that oneDNN runs";
      return result;
    }
    try {
      const onednn::ThreadScope threads(onednn::is_small(shape) ? 1 : 0);
      onednn::Variants variants = family->variants(shape);
      result.reason = variants.reason;
      for (const std::string& variant : variants.names) {
        Tactic tactic;
        tactic.provider = name();
        tactic.variant = variant;
        result.tactics.push_back(tactic);
      }
    } catch (const dnnl::error& error) {
      result.tactics.clear();
      result.reason = std::string("oneDNN: ") + error.what();
    }
    if (!result.tactics.empty()) result.reason.clear();
    return result;
  }

  void pack(const StepShape& shape, Tactic& tactic) const override {
    const onednn::Family* family = onednn::find_family(shape.step->op);
    if (family == nullptr) return;
    tactic.packed.clear();
    try {
      const std::unique_ptr<onednn::PrimitiveKernel> kernel = onednn::make_kernel(*family, shape, tactic);
      if (kernel != nullptr) tactic.packed = kernel->packed_operands();
    } catch (const dnnl::error& error) {
      onednn::rethrow(error);
    }
  }
};

}  // namespace

const Offerer& onednn_offerer() {
  static const OnednnOfferer offerer;
  return offerer;
}

}  // namespace deepjit
