// One instruction of the kernel IR as a CUDA expression: with the meaning that the reference gives it.
#pragma once

#include <string>
#include <vector>

#include "codegen/cuda/emit_cuda_writer.h"
#include "codegen/kernel_ir.h"

namespace deepjit::cuda_text {

std::string literal(double number, DType type);
// An operation on operands of type `from`: all but CONST, ROW_SIZE, LOAD and the reductions.
std::string operation(CudaWriter& out, const Inst& inst, DType from, const std::vector<std::string>& args);
// Between memory and registers.
std::string from_memory(CudaWriter& out, const std::string& x, DType dtype);
std::string to_memory(CudaWriter& out, const std::string& x, DType dtype);
// Two partial results of a reduction made one, and what it starts with.
std::string combine(CudaWriter& out, Opcode reduction, DType type, const std::string& a, const std::string& b);
std::string identity(Opcode reduction, DType type);

}  // namespace deepjit::cuda_text
