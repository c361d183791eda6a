// The run side of the cuDNN provider.
#include "device/device.h"
#include "kernels/cudnn/plan.h"
#include "kernels/cudnn/saved_plan.h"
#include "kernels/launch_words.h"

namespace deepjit {

namespace {

class GraphKernel final : public Kernel {
 public:
  explicit GraphKernel(std::unique_ptr<cudnn::Plan> plan) : plan_(std::move(plan)) {}
  size_t scratch_bytes() const override { return plan_->scratch_bytes(); }
  void run(const KernelArgs& args) override { plan_->run(args); }

 private:
  std::unique_ptr<cudnn::Plan> plan_;
};

// Are the step's weights packed? Throws ENGINE_RANGE where they cannot be these weights.
bool has_packed_weights(const StepShape& shape, const Tactic& tactic) {
  for (const PackedOperand& packed : tactic.packed) {
    if (packed.input < 0) continue;
    const bool fits = packed.input == 1 && packed.format == cudnn::kWeightsLast && shape.inputs.size() > 1 &&
                      packed.data.bytes() == shape.inputs[1].bytes();
    if (!fits) throw Error(Code::ENGINE_RANGE, "packed weights do not fit the step");
    return true;
  }
  return false;
}

std::unique_ptr<cudnn::Plan> make_plan(const StepShape& shape, const Tactic& tactic, cudnn::Graph graph) {
  try {
    return std::make_unique<cudnn::Plan>(*shape.device, std::move(graph));
  } catch (const Error& e) {
    if (e.code() != Code::INTERNAL) throw;
    return nullptr;  // a graph that this version does not take
  }
}

class CudnnLauncher final : public Launcher {
 public:
  std::string name() const override { return "cudnn"; }

  std::unique_ptr<Kernel> make(const StepShape& shape, const Tactic& tactic) const override {
    const std::optional<cudnn::EngineChoice> choice = cudnn::parse_choice(tactic.variant);
    const bool weights_last = has_packed_weights(shape, tactic);
    if (shape.device == nullptr || shape.device->info().kind != "cuda") return nullptr;
    cudnn::Graph graph = cudnn::graph_of(shape, weights_last);
    if (!graph.reason.empty()) return nullptr;
    const cudnn::Library& library = cudnn::library();
    std::unique_ptr<cudnn::Plan> plan = make_plan(shape, tactic, std::move(graph));
    if (plan == nullptr) return nullptr;
    const Tensor* saved = packed_data(tactic, cudnn::saved_plan_format(library, shape.device->info()));
    const bool loaded =
        saved != nullptr && plan->load(std::string(saved->as<char>(), static_cast<size_t>(saved->bytes())));
    // An engine that was measured at other sizes, on another GPU or with another version may not be there.
    if (!loaded && !(choice && plan->choose(*choice)) && !plan->choose_first()) return nullptr;
    return std::make_unique<GraphKernel>(std::move(plan));
  }

  Tensor unpack(const PackedOperand& packed, const TensorDesc& plain) const override {
    return cudnn::unpack_weights(packed.data, plain);
  }
};

}  // namespace

const Launcher& cudnn_launcher() {
  static const CudnnLauncher launcher;
  return launcher;
}

}  // namespace deepjit
