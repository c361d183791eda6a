// The build side of the cuDNN provider: engines that the library proposes for the graph on the GPU here. Packing
// compiles the chosen one and keeps its plan; threads that compile ahead have a handle each.
#include "device/device.h"
#include "kernels/cudnn/plan.h"
#include "kernels/cudnn/saved_plan.h"
#include "kernels/kernel_cache.h"
#include "kernels/library_offerer.h"

namespace deepjit {

namespace {

constexpr size_t kMostProposals = 8;

Tensor bytes_of(const std::string& text) {
  return Tensor::from<uint8_t>(DType::UINT8, {static_cast<int64_t>(text.size())},
                               std::span<const uint8_t>(reinterpret_cast<const uint8_t*>(text.data()), text.size()));
}

cudnn::Graph graph_for(const StepShape& shape) { return cudnn::graph_of(shape, cudnn::packs_weights(shape)); }

class CudnnOfferer final : public LibraryOfferer {
 public:
  CudnnOfferer()
      : LibraryOfferer({"cudnn", cudnn::kHeuristic, cudnn::kMissing, cudnn::kInstall,
                        "cuDNN has no engine for the step with its epilogue"}) {}

  void compile(const StepShape& shape, const Tactic& tactic) const override {
    const std::optional<cudnn::EngineChoice> choice = cudnn::parse_choice(tactic.variant);
    if (choice && shape.device != nullptr) compiled_plan(shape, *choice);
  }

  void pack(const StepShape& shape, Tactic& tactic) const override {
    tactic.packed.clear();
    if (cudnn::packs_weights(shape)) {
      tactic.packed.push_back({1, cudnn::kWeightsLast, cudnn::pack_weights(*shape.constants[1])});
    }
    const std::optional<cudnn::EngineChoice> choice = cudnn::parse_choice(tactic.variant);
    if (!choice || shape.device == nullptr) return;
    const std::string plan = compiled_plan(shape, *choice);
    const std::string format = cudnn::saved_plan_format(cudnn::library(), shape.device->info());
    if (!plan.empty()) tactic.packed.push_back({-1, format, bytes_of(plan)});
  }

 private:
  std::string library_version() const override {
    const cudnn::Library* library = cudnn::find_library();
    return library == nullptr ? "" : library->version;
  }
  bool concerns(const Step& step) const override { return cudnn::is_graph_op(step); }
  std::string obstacle(const StepShape& shape) const override { return graph_for(shape).reason; }

  std::vector<std::string> proposals(const StepShape& shape) const override {
    const cudnn::Plan plan(*shape.device, graph_for(shape), cudnn::HandleUse::ALONE);
    std::vector<std::string> variants;
    for (const cudnn::EngineChoice& choice : plan.proposals(kMostProposals)) variants.push_back(to_string(choice));
    return variants;
  }

  // "" where the library does not write plans.
  static std::string compiled_plan(const StepShape& shape, const cudnn::EngineChoice& choice) {
    const cudnn::Graph graph = graph_for(shape);
    KernelCache::Request request;
    request.source = to_string(graph);
    request.source_kind = "cudnn";
    request.key = cudnn::saved_plan_format(cudnn::library(), shape.device->info()) + "\n" + to_string(choice) + "\n" +
                  request.source;
    request.compile = [&] {
      cudnn::Plan plan(*shape.device, graph, cudnn::HandleUse::ALONE);
      if (!plan.choose(choice)) throw Error(Code::INTERNAL, "cuDNN does not make the plan " + to_string(choice));
      try {
        return plan.save();
      } catch (const Error& e) {
        if (e.code() != Code::INTERNAL) throw;
        return std::string();
      }
    };
    return KernelCache::get_or_make(shape.kernels, request);
  }
};

}  // namespace

const Offerer& cudnn_offerer() {
  static const CudnnOfferer offerer;
  return offerer;
}

}  // namespace deepjit
