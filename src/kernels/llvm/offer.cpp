// The build side of generated CPU kernels: one tactic for every region that becomes one kernel.
#include <cstring>

#include "base/cpu.h"
#include "codegen/llvm/emit_llvm.h"
#include "codegen/llvm/emit_llvm_combo.h"
#include "codegen/region/step_region.h"
#include "kernels/kernel.h"
#include "kernels/kernel_cache.h"
#include "kernels/launch_words.h"
#include "kernels/llvm/offer_data.h"

namespace deepjit {

namespace llvm_cpu {

namespace {

std::string bytes_of(const Tensor& t) { return {t.as<char>(), static_cast<size_t>(t.bytes())}; }

// Code and launch data behind one another: eight bytes say how long the code is.
std::string record_of(const std::vector<uint8_t>& code, const Tensor& launch) {
  const uint64_t size = code.size();
  std::string out(reinterpret_cast<const char*>(&size), sizeof size);
  out.append(code.begin(), code.end());
  return out + bytes_of(launch);
}

std::string compiled(const KernelIr& kernel) {
  const CpuCode code = emit_cpu_code(kernel);
  return record_of(code.code, write_launch_data(launch_data_of(kernel, code)));
}

const Tensor& packed_of(const Step& step, const char* format) {
  const Tensor* data = packed_data(step.tactic, format);
  check_internal(data != nullptr, "a part of a combo without its code");
  return *data;
}

// The parts are compiled already: their code is put together.
std::string link(const std::vector<ComboPart>& parts) {
  ComboData data;
  std::vector<CompiledPart> compiled;
  for (const ComboPart& part : parts) {
    const Tensor& code = packed_of(*part.step, kCodeFormat);
    const auto place = static_cast<int64_t>(part.place);
    data.parts.push_back({{place, part.operands}, read_launch_data(packed_of(*part.step, kLaunchFormat))});
    const LaunchData& launch = data.parts.back().launch;
    compiled.push_back({{code.as<uint8_t>(), static_cast<size_t>(code.bytes())},
                        launch.entry,
                        part.operands.size(),
                        launch.params.size()});
  }
  const ComboCode code = emit_cpu_combo(compiled);
  data.entry = code.entry;
  for (size_t i = 0; i < parts.size(); ++i) data.parts[i].launch.entry = code.parts[i];
  return record_of(code.code, write_combo_data(data));
}

void unpack(const std::string& record, const char* launch_format, Tactic& tactic) {
  uint64_t size = 0;
  check_internal(record.size() >= sizeof size, "a compiled kernel without its size");
  std::memcpy(&size, record.data(), sizeof size);
  check_internal(size <= record.size() - sizeof size, "a compiled kernel is cut");
  const auto* code = reinterpret_cast<const uint8_t*>(record.data()) + sizeof size;
  std::vector<int64_t> words((record.size() - sizeof size - size) / sizeof(int64_t));
  std::memcpy(words.data(), code + size, words.size() * sizeof(int64_t));
  tactic.packed.push_back(
      {-1, kCodeFormat, Tensor::from<uint8_t>(DType::UINT8, {static_cast<int64_t>(size)}, {code, size})});
  tactic.packed.push_back({-1, launch_format, Tensor::vector_i64(words)});
}

class LlvmOfferer final : public Offerer {
 public:
  std::string name() const override { return "llvm"; }
  std::string version() const override { return cpu_emitter_version(); }

  Offer offer(const StepShape& shape) const override {
    Offer out;
    if (shape.step->op != kRegionOp) {
      out.reason = "only regions are generated";
      return out;
    }
    const std::vector<ComboPart> parts = parts_of_combo(*shape.program, *shape.step);
    if (!parts.empty()) return offer_combo(parts);
    const RegionKernel built = build_kernel(region_of_step(*shape.program, *shape.step));
    const Refusal refusal = built.kernel ? why_not_emit(*built.kernel) : built.refusal;
    out.reason = refusal.reason;
    out.rule = refusal.rule;
    if (!refusal.empty()) return out;
    out.tactics.push_back(own_tactic());
    return out;
  }

  void compile(const StepShape& shape, const Tactic& tactic) const override {
    Tactic packed = tactic;
    pack(shape, packed);
  }

  void pack(const StepShape& shape, Tactic& tactic) const override {
    const std::vector<ComboPart> parts = parts_of_combo(*shape.program, *shape.step);
    if (!parts.empty()) return pack_combo(shape, parts, tactic);
    const RegionKernel built = build_kernel(region_of_step(*shape.program, *shape.step));
    check_internal(built.kernel.has_value(), "codegen: an offered region is no kernel");
    const KernelIr& kernel = *built.kernel;
    KernelCache::Request request;
    request.source = kernel.to_string();
    request.source_kind = "ir";
    request.key = "llvm\n" + version() + "\n" + cpu_isa() + "\n" + kLaunchFormat + "\n" + request.source;
    request.compile = [&] { return compiled(kernel); };
    unpack(KernelCache::get_or_make(shape.kernels, request), kLaunchFormat, tactic);
  }

 private:
  Tactic own_tactic() const {
    Tactic tactic;
    tactic.provider = name();
    tactic.variant = cpu_isa();
    return tactic;
  }

  Offer offer_combo(const std::vector<ComboPart>& parts) const {
    Offer out;
    for (const ComboPart& part : parts) {
      if (part.step->tactic.provider != name()) out.reason = "\"" + part.step->name + "\" runs step by step";
    }
    if (out.reason.empty()) out.tactics.push_back(own_tactic());
    return out;
  }

  void pack_combo(const StepShape& shape, const std::vector<ComboPart>& parts, Tactic& tactic) const {
    KernelCache::Request request;
    request.source_kind = "ir";
    request.key = "llvm\n" + version() + "\n" + cpu_isa() + "\n" + kComboFormat;
    for (const ComboPart& part : parts) {
      const RegionKernel built = build_kernel(region_of_step(*shape.program, *part.step));
      check_internal(built.kernel.has_value(), "codegen: a part of a combo is no kernel");
      request.source += "step " + std::to_string(part.place) + " over";
      for (int64_t operand : part.operands) request.source += " " + std::to_string(operand);
      request.source += "\n" + built.kernel->to_string();
    }
    request.key += "\n" + request.source;
    request.compile = [&] { return link(parts); };
    unpack(KernelCache::get_or_make(shape.kernels, request), kComboFormat, tactic);
  }
};

}  // namespace

}  // namespace llvm_cpu

const Offerer& llvm_offerer() {
  static const llvm_cpu::LlvmOfferer offerer;
  return offerer;
}

}  // namespace deepjit
