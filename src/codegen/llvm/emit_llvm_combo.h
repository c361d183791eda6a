// Several compiled CPU kernels as one object, with one function that runs them in order on one thread:
//
//   void combo(void* const* operands, const int64_t* params, void* scratch)
//
// kernels/llvm/launch_data.h tells what lies behind the arguments. A kernel without rows is passed over.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace deepjit {

struct CompiledPart {
  std::span<const uint8_t> code;
  int64_t entry = 0;
  size_t operands = 0;
  size_t params = 0;  // its rows and columns follow
};

struct ComboCode {
  std::vector<uint8_t> code;
  int64_t entry = 0;
  std::vector<int64_t> parts;  // where each part's own function is
};

ComboCode emit_cpu_combo(const std::vector<CompiledPart>& parts);

}  // namespace deepjit
