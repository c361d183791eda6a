// The parts of the sort family, one a file, and the view of a tensor along one axis that they share.
#pragma once

#include "ops/op.h"

namespace deepjit {

void add_topk_ops(OpRegistry& registry);    // topk.cpp: TopK
void add_argmax_ops(OpRegistry& registry);  // argmax.cpp: ArgMax, ArgMin, Hardmax
void add_scan_ops(OpRegistry& registry);    // cumulative.cpp: CumSum, CumProd
void add_nms_ops(OpRegistry& registry);     // nms.cpp: NonMaxSuppression

// A dense tensor seen as [outer, size, inner], `size` being one axis.
struct AxisView {
  int64_t outer = 1;
  int64_t size = 1;
  int64_t inner = 1;
};
AxisView axis_view(const Dims& dims, int axis);

}  // namespace deepjit
