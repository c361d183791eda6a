// Kernel IR to CUDA text: plain, C-like, without headers and templates, for NVRTC (nvrtc.h).
//
// kernels/nvrtc/launch_data.h tells the signature of the kernel and how it is launched. A mapping says how its work is
// laid on threads (cuda_mapping.h). Flat kernels give each thread some neighbouring columns at a time; a kernel that
// reduces over its row, or stores something once a row, gives each row to a group of threads of one block. Its
// reductions go in a fixed order: over the columns of a thread, over the threads of a warp by halves, over the warps
// one after another.
//
// A resident mapping holds a whole row in registers: memory is read once, however many passes there are. The kernel
// then has the general text too, for rows that are longer or not aligned, and chooses at its start.
//
// The same text compiles for the CPU too, under a header that stands for the device (tests/codegen/cuda_emulation.h).
#pragma once

#include <string>
#include <vector>

#include "codegen/cuda/cuda_mapping.h"
#include "codegen/kernel_ir.h"
#include "codegen/refusal.h"

namespace deepjit {

struct CudaText {
  std::string name;  // of the kernel
  std::string source;
  std::vector<Quantity> params;
  int row_buffers = 0;
};

// `kernel` must be one that why_not_emit_cuda() accepts, and the mapping one of its kind.
CudaText emit_cuda_text(const KernelIr& kernel, const CudaMapping& mapping);

// Several kernels that do not need each other in one launch, each by blocks of its own: the text takes the arguments
// of each, and behind them how many blocks it gets.
struct CudaPart {
  const KernelIr* kernel = nullptr;
  CudaMapping mapping;
};
struct CudaCombo {
  std::string name;
  std::string source;
  std::vector<CudaText> parts;  // without text
};

// All mappings must have blocks of the same size.
CudaCombo emit_cuda_combo(const std::vector<CudaPart>& parts);

// Why there is no CUDA text for the kernel; empty when there is.
Refusal why_not_emit_cuda(const KernelIr& kernel);

// Of this emitter: part of cache keys.
std::string cuda_emitter_version();

}  // namespace deepjit
