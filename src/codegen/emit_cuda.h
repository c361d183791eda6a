// Kernel IR to CUDA text: plain, C-like, without headers and templates, for NVRTC (nvrtc.h).
//
// kernels/nvrtc/launch_data.h tells the signature of the kernel and how it is launched. A mapping says how its work is
// laid on threads. Flat kernels give each thread some neighbouring columns at a time; a kernel that reduces over its
// row, or stores something once a row, gives each row to a group of threads of one block. Its reductions go in a fixed
// order: over the columns of a thread, over the threads of a warp by halves, over the warps one after another.
//
// A resident mapping holds a whole row in registers: memory is read once, however many passes there are. The kernel
// then has the general text too, for rows that are longer or not aligned, and chooses at its start.
//
// The same text compiles for the CPU too, under a header that stands for the device (tests/codegen/cuda_emulation.h).
#pragma once

#include <string>
#include <vector>

#include "codegen/kernel_ir.h"
#include "codegen/refusal.h"

namespace deepjit {

struct CudaMapping {
  int per_thread = 1;       // neighbouring columns: 1, 2, 4 or 8
  int threads_per_row = 0;  // 1 to 1024, a power of two; 0: flat. 1 goes with per_thread 1
  int chunks = 0;           // resident: how many times per_thread columns each thread holds; 0: not resident

  int threads() const { return threads_per_row > 128 ? threads_per_row : threads_per_row > 0 ? 128 : 256; }
  int rows_per_block() const { return threads_per_row > 0 ? threads() / threads_per_row : 1; }
  // The longest row that a resident mapping holds.
  int resident_columns() const { return chunks * per_thread * threads_per_row; }
  // "flat4", "row32x4", "row32x4x8": the names of variants.
  std::string to_string() const;
  static CudaMapping parse(const std::string& text);
};

struct CudaText {
  std::string name;  // of the kernel
  std::string source;
  std::vector<Quantity> params;
  int row_buffers = 0;
};

// `kernel` must be one that why_not_emit_cuda() accepts, and the mapping one of its kind.
CudaText emit_cuda_text(const KernelIr& kernel, const CudaMapping& mapping);

// Must each row be the work of one group of threads?
bool shares_rows(const KernelIr& kernel);
// Mappings worth measuring for rows of this many columns, the likeliest first; each is right for all sizes.
std::vector<CudaMapping> cuda_mappings(const KernelIr& kernel, int64_t columns);

// Why there is no CUDA text for the kernel; empty when there is.
Refusal why_not_emit_cuda(const KernelIr& kernel);

// Of this emitter: part of cache keys.
std::string cuda_emitter_version();

}  // namespace deepjit
