#include "ops/index/sort.h"

#include "ops/shape/strided_copy.h"

namespace deepjit {

AxisView axis_view(const Dims& dims, int axis) {
  return {count_range(dims, 0, axis), dims[axis], count_range(dims, axis + 1, dims.rank())};
}

void add_sort_ops(OpRegistry& registry) {
  add_topk_ops(registry);
  add_argmax_ops(registry);
  add_scan_ops(registry);
  add_nms_ops(registry);
}

}  // namespace deepjit
