// Compiles a kernel IR and runs it through the provider's own launcher.
#pragma once

#include "codegen/ir_builder.h"
#include "codegen/llvm/emit_llvm.h"
#include "kernels/kernel.h"
#include "kernels/llvm/offer_data.h"

namespace deepjit {

// A kernel whose operand shapes are given at run().
class CompiledKernel {
 public:
  explicit CompiledKernel(const KernelIr& ir) {
    const CpuCode code = emit_cpu_code(ir);
    tactic_.provider = "llvm";
    tactic_.variant = code.isa;
    llvm_cpu::LaunchData data = llvm_cpu::launch_data_of(ir, code);
    data.cost = 50;
    tactic_.packed.push_back(
        {-1, llvm_cpu::kCodeFormat,
         Tensor::from<uint8_t>(DType::UINT8, {static_cast<int64_t>(code.code.size())}, code.code)});
    tactic_.packed.push_back({-1, llvm_cpu::kLaunchFormat, llvm_cpu::write_launch_data(data)});
    row_buffers = code.row_buffers;
  }

  Tensor run(const std::vector<Tensor>& inputs, DType dtype, const Dims& dims, int threads = 1) const {
    Step step;
    StepShape shape;
    shape.step = &step;
    shape.threads = threads;
    std::vector<void*> in;
    for (const Tensor& t : inputs) {
      shape.inputs.push_back({t.dtype(), t.dims()});
      in.push_back(t.view().data);
    }
    shape.outputs.push_back({dtype, dims});
    Tensor out(dtype, dims);
    std::vector<void*> to = {out.view().data};
    const auto kernel = llvm_launcher().make(shape, tactic_);
    std::vector<float> scratch(kernel->scratch_bytes() / sizeof(float) + 16);
    kernel->run({in.data(), to.data(), scratch.data()});
    return out;
  }

  int row_buffers = 0;

 private:
  Tactic tactic_;
};

// The extent "dim `axis` of operand `operand`".
inline Quantity dim_of(int operand, int axis) {
  return {1, {{static_cast<int16_t>(operand), static_cast<int16_t>(axis)}}};
}

// out[i] = op(in[i]) over one axis of any length.
inline KernelIr unary_kernel(Opcode op) {
  IrBuilder b;
  b.kernel.inputs = 1;
  b.kernel.extents = {dim_of(0, 0)};
  const Access in{0, DType::FLOAT32, {Quantity{}}};
  const Access out{1, DType::FLOAT32, {Quantity{}}};
  b.store(b.unary(op, b.load(in)), out);
  return b.kernel;
}

}  // namespace deepjit
