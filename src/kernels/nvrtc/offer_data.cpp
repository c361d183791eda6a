#include "kernels/nvrtc/offer_data.h"

namespace deepjit::nvrtc_gpu {

LaunchData launch_data_of(const KernelIr& kernel, const CudaMapping& mapping, const CudaText& text) {
  LaunchData data;
  data.name = text.name;
  data.by_rows = mapping.threads_per_row > 0;
  data.threads = mapping.threads();
  data.per_thread = mapping.per_thread;
  data.rows_per_block = mapping.rows_per_block();
  data.threads_per_row = data.by_rows ? mapping.threads_per_row : 1;
  data.row_buffers = text.row_buffers;
  data.checks = !kernel.checks.empty();
  data.extents = kernel.extents;
  data.params = text.params;
  return data;
}

}  // namespace deepjit::nvrtc_gpu
