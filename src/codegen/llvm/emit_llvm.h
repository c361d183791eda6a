// Kernel IR to machine code for this machine's CPU, by LLVM.
//
// The result is position-independent code without relocations or calls: it can be stored in an engine, copied to
// executable memory and run without LLVM (kernels/llvm/launch.cpp). One function walks a box of rows and columns:
//
//   void kernel(void* const* operands, const int64_t* params, int64_t row_begin, int64_t row_end,
//               int64_t column_begin, int64_t column_end, void* scratch)
//
// Rows number the outer axes, columns the last one. A kernel that reduces always gets all columns; one that reduces in
// lanes has its columns along the axis before the row, and each column has a whole row of its own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "codegen/kernel_ir.h"
#include "codegen/refusal.h"

namespace deepjit {

struct CpuCode {
  std::vector<uint8_t> code;
  uint32_t entry = 0;            // offset of the function
  std::vector<Quantity> params;  // what params[i] holds
  int32_t row_buffers = 0;       // float rows that scratch holds: of one row, or in lanes of a vector of them
  std::string isa;               // "avx512", "avx2" or "x86-64": what the machine must have
};

// Throws Error(INTERNAL) when LLVM cannot make code; `kernel` must be one that why_not_emit() accepts.
CpuCode emit_cpu_code(const KernelIr& kernel);

// Why there is no CPU code for the kernel; empty when there is.
Refusal why_not_emit(const KernelIr& kernel);

// Of LLVM and of this emitter: part of cache keys.
std::string cpu_emitter_version();

}  // namespace deepjit
