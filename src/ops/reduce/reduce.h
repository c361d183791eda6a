// What the Reduce ops share: which axes go, and the loops that run them.
#pragma once

#include <vector>

#include "ops/op.h"

namespace deepjit {

enum class ReduceOp { SUM, MEAN, MAX, MIN, PROD, L1, L2, LOG_SUM, LOG_SUM_EXP, SUM_SQUARE };

// For each axis of the input, whether it is reduced. Empty `axes` means all, or none with `noop`.
std::vector<bool> reduced_axes(const std::vector<int64_t>& axes, int rank, bool noop);

// Reduces `in` over the marked axes into `out`, which holds the kept elements in order. float16, bfloat16
// and float32 add up in float over short blocks and in double over the blocks. An empty reduction gives
// the identity (sum 0, product 1, max the lowest value, min the highest).
void reduce_tensor(ReduceOp op, const TensorView& in, const std::vector<bool>& reduced, const TensorView& out);

}  // namespace deepjit
