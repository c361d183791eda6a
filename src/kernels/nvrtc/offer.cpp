// The build side of generated CUDA kernels: for a region, or a step that could stand in one, a tactic for each mapping
// of its work on threads that may pay off.
#include <fmt/format.h>

#include <algorithm>

#include "codegen/cuda/emit_cuda.h"
#include "codegen/cuda/nvrtc.h"
#include "codegen/region/step_region.h"
#include "kernels/kernel.h"
#include "kernels/kernel_cache.h"
#include "kernels/launch_words.h"
#include "kernels/nvrtc/attention_problem.h"
#include "kernels/nvrtc/offer_contract.h"
#include "kernels/nvrtc/offer_data.h"

namespace deepjit {

namespace nvrtc_gpu {

namespace {

constexpr size_t kMostArguments = 480;  // of 8 bytes: a launch takes 4 KiB of them on every driver

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
  std::string version() const override {
    return cuda_emitter_version() + "," + contract_emitter_version() + ",nvrtc " + nvrtc::version();
  }

  Offer offer(const StepShape& shape) const override {
    const std::vector<ComboPart> parts = parts_of_combo(*shape.program, *shape.step);
    if (!parts.empty()) return offer_combo(parts);
    Offer out = offer_contract(shape);
    if (!out.tactics.empty() || is_contraction(*shape.step) || is_attention(*shape.step)) return out;
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

  void compile(const StepShape& shape, const Tactic& tactic) const override {
    Tactic packed = tactic;
    StepShape without_weights = shape;  // code alone is wanted: packing them takes longer than the text
    if (is_contract_variant(tactic.variant)) without_weights.constants.assign(shape.constants.size(), nullptr);
    pack(without_weights, packed);
  }

  void pack(const StepShape& shape, Tactic& tactic) const override {
    const std::vector<ComboPart> parts = parts_of_combo(*shape.program, *shape.step);
    if (!parts.empty()) return pack_combo(shape, parts, tactic);
    if (is_contract_variant(tactic.variant)) {
      const ContractCode code = contract_code(shape, tactic.variant);
      pack_code(shape, code.text.name, code.text.source, tactic);
      tactic.packed.insert(tactic.packed.end(), code.operands.begin(), code.operands.end());
      return;
    }
    const RegionKernel built = kernel_of(shape);
    check_internal(built.kernel.has_value(), "codegen: an offered step is no kernel");
    const CudaMapping mapping = CudaMapping::parse(tactic.variant);
    const CudaText text = emit_cuda_text(*built.kernel, mapping);
    pack_code(shape, text.name, text.source, tactic);
    tactic.packed.push_back({-1, kLaunchFormat, write_launch_data(launch_data_of(*built.kernel, mapping, text))});
  }

 private:
  Offer offer_combo(const std::vector<ComboPart>& parts) const {
    Offer out;
    size_t words = 0;
    for (const ComboPart& part : parts) {
      const Tensor* launch = packed_data(part.step->tactic, kLaunchFormat);
      if (part.step->tactic.provider != name() || launch == nullptr) {
        out.reason = "\"" + part.step->name + "\" runs step by step";
        return out;
      }
      words += part.operands.size() + read_launch_data(*launch).params.size() + 3;
    }
    if (words > kMostArguments) {
      out.reason =
          "its kernels take " + std::to_string(words) + " arguments, a launch " + std::to_string(kMostArguments);
      return out;
    }
    Tactic tactic;
    tactic.provider = name();
    tactic.variant = "combo";
    out.tactics.push_back(std::move(tactic));
    return out;
  }

  void pack_combo(const StepShape& shape, const std::vector<ComboPart>& parts, Tactic& tactic) const {
    std::vector<RegionKernel> kernels;
    kernels.reserve(parts.size());
    std::vector<CudaPart> texts;
    ComboData data;
    for (const ComboPart& part : parts) {
      kernels.push_back(build_kernel(region_of_step(*shape.program, *part.step)));
      check_internal(kernels.back().kernel.has_value(), "codegen: a part of a combo is no kernel");
      texts.push_back({&*kernels.back().kernel, CudaMapping::parse(part.step->tactic.variant)});
    }
    const CudaCombo combo = emit_cuda_combo(texts);
    data.name = combo.name;
    for (size_t i = 0; i < parts.size(); ++i) {
      data.parts.push_back({{static_cast<int64_t>(parts[i].place), parts[i].operands},
                            launch_data_of(*texts[i].kernel, texts[i].mapping, combo.parts[i])});
    }
    pack_code(shape, combo.name, combo.source, tactic);
    tactic.packed.push_back({-1, kComboFormat, write_combo_data(data)});
  }

  void pack_code(const StepShape& shape, const std::string& kernel, const std::string& source, Tactic& tactic) const {
    for (int architecture : shape.architectures) {
      KernelCache::Request request;
      request.source = source;
      request.source_kind = "cu";
      request.key = "nvrtc\n" + version() + "\nsm_" + std::to_string(architecture) + "\n" + source;
      request.compile = [&] {
        const nvrtc::Cubin cubin = nvrtc::compile(source, kernel + ".cu", architecture);
        return std::string(cubin.bytes.begin(), cubin.bytes.end());
      };
      const std::string cubin = KernelCache::get_or_make(shape.kernels, request);
      tactic.packed.push_back({-1, kCubinFormat + std::to_string(architecture), bytes_of(cubin.data(), cubin.size())});
    }
    tactic.packed.push_back({-1, kSourceFormat, bytes_of(source.data(), source.size())});
  }
};

}  // namespace

}  // namespace nvrtc_gpu

const Offerer& nvrtc_offerer() {
  static const nvrtc_gpu::NvrtcOfferer offerer;
  return offerer;
}

}  // namespace deepjit
