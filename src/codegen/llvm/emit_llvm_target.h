// LLVM's side of the CPU emitter: the machine at hand, optimisation, and flat code.
#pragma once

#include <llvm/IR/Module.h>

#include <span>
#include <string>
#include <vector>

#include "codegen/llvm/emit_llvm.h"
#include "codegen/llvm/emit_llvm_math.h"

namespace deepjit {

llvm_math::Target math_target();
// Floats that one vector of the loops holds.
int vector_width();

// Flat code that a module calls by name.
struct FlatObject {
  std::string name;
  std::span<const uint8_t> code;
  int64_t entry = 0;  // of the function, in `code`
};

// Optimises the module and turns its one function "kernel" into flat code, the objects that it calls before it. Returns
// where each object's function is. Throws Error(INTERNAL).
std::vector<int64_t> compile_flat(llvm::Module& module, CpuCode& out, const std::vector<FlatObject>& objects = {});

}  // namespace deepjit
