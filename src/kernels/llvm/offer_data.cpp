#include "kernels/llvm/offer_data.h"

namespace deepjit::llvm_cpu {

LaunchData launch_data_of(const KernelIr& kernel, const CpuCode& code) {
  LaunchData data;
  data.entry = code.entry;
  data.row_buffers = code.row_buffers;
  data.reduces = kernel.reduces && !kernel.lanes;
  data.cost = 0;
  for (const Inst& inst : kernel.insts) data.cost += rough_cost(inst.op);
  data.extents = kernel.extents;
  if (kernel.lanes) {
    data.row = data.extents.back();
    data.extents.pop_back();
  }
  data.params = code.params;
  for (const IndexCheck& check : kernel.checks) {
    data.index_inputs.push_back(check.operand);
    data.index_ops.push_back(check.op);
    data.index_limits.push_back(check.limit);
  }
  return data;
}

}  // namespace deepjit::llvm_cpu
