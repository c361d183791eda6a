// From generated CPU code to its launch data.
#pragma once

#include "codegen/llvm/emit_llvm.h"
#include "kernels/llvm/launch_data.h"

namespace deepjit::llvm_cpu {

LaunchData launch_data_of(const KernelIr& kernel, const CpuCode& code);

}  // namespace deepjit::llvm_cpu
