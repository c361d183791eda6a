// The build side of generated CUDA kernels: for a region, or a step that could stand in one, a tactic for each mapping
// of its work on threads that may pay off.
#include <fmt/format.h>

#include <algorithm>

#include "codegen/emit_cuda.h"
#include "codegen/nvrtc.h"
#include "codegen/step_region.h"
#include "kernels/kernel.h"
#include "kernels/kernel_cache.h"
#include "kernels/launch_words.h"
#include "kernels/nvrtc/launch_data.h"

namespace deepjit {

namespace nvrtc_gpu {

namespace {

RegionKernel kernel_of(const StepShape& shape) {
  const std::vector<int32_t>& outputs = shape.step->outputs;
  if (outputs.empty() || std::count(outputs.begin(), outputs.end(), -1) != 0) {
    return {std::nullopt, {Why::SEVERAL_OUTPUTS, shape.step->op + " without some of its outputs is not generated"}};
  }
  const Region region = region_of_step(*shape.program, *shape.step);
  for (const RegionOp& op : region.ops) {
    if (Refusal why = why_not_fusable(op.view); !why.empty()) return {std::nullopt, why};
  }
  RegionKernel built = build_kernel(region);
  if (!built.kernel) return built;
  if (Refusal why = why_not_emit_cuda(*built.kernel); !why.empty()) return {std::nullopt, why};
  return built;
}

Tensor bytes_of(const void* data, size_t size) {
  return Tensor::from<uint8_t>(DType::UINT8, {static_cast<int64_t>(size)},
                               std::span<const uint8_t>(static_cast<const uint8_t*>(data), size));
}

class NvrtcOfferer final : public Offerer {
 public:
  std::string name() const override { return "nvrtc"; }
  std::string device() const override { return "cuda"; }
  std::string version() const override { return cuda_emitter_version() + ",nvrtc " + nvrtc::version(); }

  Offer offer(const StepShape& shape) const override {
    Offer out;
    const RegionKernel built = kernel_of(shape);
    out.reason = built.refusal.reason;
    out.rule = built.refusal.rule;
    if (!built.kernel) return out;
    const int64_t columns = value_of(built.kernel->extents.back(), shape);
    for (const CudaMapping& mapping : cuda_mappings(*built.kernel, columns)) {
      Tactic tactic;
      tactic.provider = name();
      tactic.variant = mapping.to_string();
      out.tactics.push_back(std::move(tactic));
    }
    return out;
  }

  void pack(const StepShape& shape, Tactic& tactic) const override {
    const RegionKernel built = kernel_of(shape);
    check_internal(built.kernel.has_value(), "codegen: an offered step is no kernel");
    const CudaMapping mapping = CudaMapping::parse(tactic.variant);
    const CudaText text = emit_cuda_text(*built.kernel, mapping);
    for (int architecture : shape.architectures) {
      KernelCache::Request request;
      request.source = text.source;
      request.source_kind = "cu";
      request.key = "nvrtc\n" + version() + "\nsm_" + std::to_string(architecture) + "\n" + text.source;
      request.compile = [&] {
        const nvrtc::Cubin cubin = nvrtc::compile(text.source, text.name + ".cu", architecture);
        return std::string(cubin.bytes.begin(), cubin.bytes.end());
      };
      const std::string cubin = KernelCache::get_or_make(shape.kernels, request);
      tactic.packed.push_back({-1, kCubinFormat + std::to_string(architecture), bytes_of(cubin.data(), cubin.size())});
    }
    tactic.packed.push_back({-1, kSourceFormat, bytes_of(text.source.data(), text.source.size())});
    tactic.packed.push_back({-1, kLaunchFormat, write_launch_data(launch_data(*built.kernel, mapping, text))});
  }

 private:
  static LaunchData launch_data(const KernelIr& kernel, const CudaMapping& mapping, const CudaText& text) {
    LaunchData data;
    data.name = text.name;
    data.by_rows = mapping.threads_per_row > 0;
    data.threads = mapping.threads();
    data.per_thread = mapping.per_thread;
    data.rows_per_block = mapping.rows_per_block();
    data.threads_per_row = data.by_rows ? mapping.threads_per_row : 1;
    data.row_buffers = text.row_buffers;
    data.extents = kernel.extents;
    data.params = text.params;
    return data;
  }
};

}  // namespace

}  // namespace nvrtc_gpu

const Offerer& nvrtc_offerer() {
  static const nvrtc_gpu::NvrtcOfferer offerer;
  return offerer;
}

}  // namespace deepjit
