// The build side of generated CPU kernels: one tactic for every region that becomes one kernel.
#include <map>
#include <mutex>

#include "base/cpu.h"
#include "codegen/emit_llvm.h"
#include "codegen/step_region.h"
#include "kernels/kernel.h"
#include "kernels/llvm/launch_data.h"

namespace deepjit {

namespace llvm_cpu {

namespace {

int64_t cost_of(const KernelIr& kernel) {
  int64_t cost = 0;
  for (const Inst& inst : kernel.insts) {
    cost += inst.op == Opcode::CONST ? 0 : is_transcendental(inst.op) ? 20 : inst.op == Opcode::DIV ? 8 : 1;
  }
  return cost;
}

struct Compiled {
  Tensor code;
  Tensor launch;
};

// Equal kernels are compiled once a process.
const Compiled& compile(const KernelIr& kernel) {
  static std::mutex mutex;
  static std::map<std::string, Compiled> done;
  const std::string key = kernel.to_string();
  {
    const std::lock_guard<std::mutex> lock(mutex);
    if (const auto found = done.find(key); found != done.end()) return found->second;
  }
  const CpuCode code = emit_cpu_code(kernel);
  Compiled out;
  out.code = Tensor::from<uint8_t>(DType::UINT8, {static_cast<int64_t>(code.code.size())}, code.code);
  LaunchData data;
  data.entry = code.entry;
  data.row_buffers = code.row_buffers;
  data.reduces = kernel.reduces && !kernel.lanes;
  data.cost = cost_of(kernel);
  data.extents = kernel.extents;
  if (kernel.lanes) {
    data.row = data.extents.back();
    data.extents.pop_back();
  }
  data.params = code.params;
  out.launch = write_launch_data(data);
  const std::lock_guard<std::mutex> lock(mutex);
  return done.emplace(key, std::move(out)).first->second;
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
    const RegionKernel built = build_kernel(region_of_step(*shape.program, *shape.step));
    const Refusal refusal = built.kernel ? why_not_emit(*built.kernel) : built.refusal;
    out.reason = refusal.reason;
    out.rule = refusal.rule;
    if (!refusal.empty()) return out;
    Tactic tactic;
    tactic.provider = name();
    tactic.variant = cpu_isa();
    out.tactics.push_back(std::move(tactic));
    return out;
  }

  void pack(const StepShape& shape, Tactic& tactic) const override {
    const RegionKernel built = build_kernel(region_of_step(*shape.program, *shape.step));
    check_internal(built.kernel.has_value(), "codegen: an offered region is no kernel");
    const Compiled& compiled = compile(*built.kernel);
    tactic.packed.push_back({-1, kCodeFormat, compiled.code});
    tactic.packed.push_back({-1, kLaunchFormat, compiled.launch});
  }
};

}  // namespace

}  // namespace llvm_cpu

const Offerer& llvm_offerer() {
  static const llvm_cpu::LlvmOfferer offerer;
  return offerer;
}

}  // namespace deepjit
