// The ops that norm.cpp registers but other files define, and what the files share.
#pragma once

#include "ops/op.h"

namespace deepjit {

void add_layer_norm_ops(OpRegistry& registry);  // layer_norm.cpp: LayerNormalization, RMSNormalization
void add_softmax_ops(OpRegistry& registry);     // softmax.cpp: Softmax, LogSoftmax

// Product of dims [first, last).
inline int64_t dims_product(const Dims& dims, int first, int last) {
  int64_t n = 1;
  for (int i = first; i < last; ++i) n = checked_mul(n, dims[i]);
  return n;
}

// Input i must be a vector with one element per `channels`.
inline void expect_vector(const InferContext& ctx, int i, const Dim& channels, const std::string& what) {
  if (!ctx.has_input(i) || !ctx.shape(i).ranked()) return;
  const Shape& s = ctx.shape(i);
  if (s.rank() != 1 || (s[0].is_const() && channels.is_const() && !(s[0] == channels))) {
    throw Error(Code::SHAPE_MISMATCH,
                what + " has shape " + s.to_string() + ", expected [" + channels.to_string() + "]");
  }
}

}  // namespace deepjit
