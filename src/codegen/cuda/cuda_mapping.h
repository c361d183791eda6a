// How the work of a generated CUDA kernel is laid on threads.
//
// Flat kernels give each thread some neighbouring columns at a time; a kernel that reduces over its row, or stores
// something once a row, gives each row to a group of threads of one block. A resident mapping holds a whole row in the
// registers of its threads. Where rows lie side by side in memory, neighbouring threads have neighbouring rows.
#pragma once

#include <string>
#include <vector>

#include "codegen/kernel_ir.h"

namespace deepjit {

constexpr int kCudaVectorBytes = 16;  // the widest load

struct CudaMapping {
  int per_thread = 1;       // neighbouring columns: 1, 2, 4 or 8
  int threads_per_row = 0;  // 1 to 1024, a power of two; 0: flat. 1 goes with per_thread 1
  int chunks = 0;           // resident: how many times per_thread columns each thread holds; 0: not resident
  bool across = false;      // the threads of a row are those of 32 neighbouring rows apart; goes with per_thread 1

  // Of a block. Most mappings have the same, so that their kernels can share a launch.
  int threads() const { return across ? 32 * threads_per_row : threads_per_row > 128 ? threads_per_row : 128; }
  int rows_per_block() const { return threads_per_row > 0 ? threads() / threads_per_row : 1; }
  // The longest row that a resident mapping holds.
  int resident_columns() const { return chunks * per_thread * threads_per_row; }
  // "flat4", "row32x4", "row32x4x8", "across16": the names of variants.
  std::string to_string() const;
  static CudaMapping parse(const std::string& text);
};

// Must each row be the work of one group of threads?
bool shares_rows(const KernelIr& kernel);
// Mappings worth measuring for rows of this many columns, the likeliest first; each is right for all sizes.
std::vector<CudaMapping> cuda_mappings(const KernelIr& kernel, int64_t columns);

}  // namespace deepjit
