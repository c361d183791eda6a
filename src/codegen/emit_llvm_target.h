// LLVM's side of the CPU emitter: the machine at hand, optimisation, and flat code.
#pragma once

#include <llvm/IR/Module.h>

#include "codegen/emit_llvm.h"
#include "codegen/emit_llvm_math.h"

namespace deepjit {

llvm_math::Target math_target();
// Floats that one vector of the loops holds.
int vector_width();

// Optimises the module and turns its one function "kernel" into flat code. Throws Error(INTERNAL).
void compile_flat(llvm::Module& module, CpuCode& out);

}  // namespace deepjit
