// The run side of the cuBLASLt provider.
#include "device/device.h"
#include "kernels/cublaslt/plan.h"

namespace deepjit {

namespace {

class ProductKernel final : public Kernel {
 public:
  explicit ProductKernel(std::unique_ptr<cublaslt::Plan> plan) : plan_(std::move(plan)) {}
  size_t scratch_bytes() const override { return plan_->scratch_bytes(); }
  void run(const KernelArgs& args) override { plan_->run(args); }

 private:
  std::unique_ptr<cublaslt::Plan> plan_;
};

class CublasltLauncher final : public Launcher {
 public:
  std::string name() const override { return "cublaslt"; }

  std::unique_ptr<Kernel> make(const StepShape& shape, const Tactic& tactic) const override {
    const std::optional<cublaslt::Algorithm> algorithm = cublaslt::parse_algorithm(tactic.variant);
    if (shape.device == nullptr || shape.device->info().kind != "cuda") return nullptr;
    cublaslt::Product product = cublaslt::product_of(shape);
    if (!product.reason.empty()) return nullptr;
    auto plan = std::make_unique<cublaslt::Plan>(*shape.device, std::move(product));
    // An algorithm that was measured at other sizes, on another GPU or with another version may not be there.
    if (!(algorithm && plan->choose(*algorithm)) && !plan->choose_first()) return nullptr;
    return std::make_unique<ProductKernel>(std::move(plan));
  }

  Tensor unpack(const PackedOperand&, const TensorDesc&) const override {
    throw Error(Code::ENGINE_RANGE, "a matrix product of cuBLASLt packs no operands");
  }
};

}  // namespace

const Launcher& cublaslt_launcher() {
  static const CublasltLauncher launcher;
  return launcher;
}

}  // namespace deepjit
