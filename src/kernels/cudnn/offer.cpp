// The build side of the cuDNN provider: engines that the library proposes for the graph on the GPU here. Packing
// compiles the chosen one and keeps its plan.
#include "device/device.h"
#include "kernels/build_notes.h"
#include "kernels/cudnn/plan.h"
#include "kernels/cudnn/saved_plan.h"
#include "kernels/kernel_cache.h"

namespace deepjit {

namespace {

constexpr size_t kMostProposals = 8;

Tensor bytes_of(const std::string& text) {
  return Tensor::from<uint8_t>(DType::UINT8, {static_cast<int64_t>(text.size())},
                               std::span<const uint8_t>(reinterpret_cast<const uint8_t*>(text.data()), text.size()));
}

class CudnnOfferer final : public Offerer {
 public:
  std::string name() const override { return "cudnn"; }
  std::string device() const override { return "cuda"; }
  std::string measured_with() const override {
    const cudnn::Library* library = cudnn::find_library();
    return library == nullptr ? "none" : library->version;
  }

  Offer offer(const StepShape& shape) const override {
    Offer out;
    if (!cudnn::is_graph_op(shape.step->op)) return out;  // who else refuses it knows better why
    cudnn::Graph graph = cudnn::graph_of(shape, cudnn::packs_weights(shape));
    out.reason = graph.reason;
    if (!out.reason.empty()) return out;
    if (shape.device == nullptr) {
      if (is_for_null_device(shape)) {
        out.reason = "the null device runs no libraries";
      } else {
        out.tactics.push_back(tactic(cudnn::kHeuristic));
      }
    } else if (cudnn::find_library() == nullptr) {
      out.reason = std::string(cudnn::kMissing) + ": " + cudnn::kInstall;
    } else {
      ask(*shape.device, std::move(graph), out);
    }
    return out;
  }

  void pack(const StepShape& shape, Tactic& tactic) const override {
    tactic.packed.clear();
    const bool weights_last = cudnn::packs_weights(shape);
    if (weights_last) tactic.packed.push_back({1, cudnn::kWeightsLast, cudnn::pack_weights(*shape.constants[1])});
    const std::optional<cudnn::EngineChoice> choice = cudnn::parse_choice(tactic.variant);
    if (!choice || shape.device == nullptr) return;
    const std::string plan = compiled_plan(shape, cudnn::graph_of(shape, weights_last), *choice);
    const std::string format = cudnn::saved_plan_format(cudnn::library(), shape.device->info());
    if (!plan.empty()) tactic.packed.push_back({-1, format, bytes_of(plan)});
  }

 private:
  Tactic tactic(const std::string& variant) const {
    Tactic made;
    made.provider = name();
    made.variant = variant;
    return made;
  }

  void ask(device::Device& device, cudnn::Graph graph, Offer& out) const {
    try {
      const cudnn::Plan plan(device, std::move(graph));
      for (const cudnn::EngineChoice& choice : plan.proposals(kMostProposals)) {
        out.tactics.push_back(tactic(to_string(choice)));
      }
      if (out.tactics.empty()) out.reason = "cuDNN has no engine for the step with its epilogue";
    } catch (const Error& e) {
      if (e.code() != Code::INTERNAL) throw;
      out.reason = e.message();
    }
  }

  // "" where the library does not write plans.
  static std::string compiled_plan(const StepShape& shape, const cudnn::Graph& graph,
                                   const cudnn::EngineChoice& choice) {
    KernelCache::Request request;
    request.source = to_string(graph);
    request.source_kind = "cudnn";
    request.key = cudnn::saved_plan_format(cudnn::library(), shape.device->info()) + "\n" + to_string(choice) + "\n" +
                  request.source;
    request.compile = [&] {
      cudnn::Plan plan(*shape.device, graph);
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
