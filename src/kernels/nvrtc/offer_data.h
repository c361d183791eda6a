// From generated CUDA text to its launch data.
#pragma once

#include "codegen/cuda/emit_cuda.h"
#include "kernels/nvrtc/launch_data.h"

namespace deepjit::nvrtc_gpu {

LaunchData launch_data_of(const KernelIr& kernel, const CudaMapping& mapping, const CudaText& text);

}  // namespace deepjit::nvrtc_gpu
