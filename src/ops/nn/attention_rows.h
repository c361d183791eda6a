// deepjit.Attention: Attention whose Q, K and V are parts of the rows of longer tensors, such as one product's result
// that holds all three, read where they are.
//
// Inputs Q, K, V of rank 3, [batch, tokens, width] or [tokens, batch, width], and a mask as Attention's. The result is
// [batch, tokens, heads * head_size], or tokens first. Attributes: q_num_heads, kv_num_heads, head_size, scale (default
// 1 / sqrt(head_size)), is_causal, and
//   starts         int64[3]: where in a row of Q, K and V the first head begins (default zeros)
//   tokens_first   int64[4]: 1 where Q, K, V and the result have tokens before the batch (default zeros)
#pragma once

#include "base/attributes.h"
#include "base/types.h"
#include "ops/op.h"

namespace deepjit {

// Where the rows of the heads lie in a tensor, in elements.
struct HeadRows {
  int64_t start, batch, head, row;
  int64_t at(int64_t b, int64_t h) const { return start + b * batch + h * head; }
};

struct AttentionRows {
  explicit AttentionRows(const Attributes& attrs);  // throws Error(ATTRIBUTE)

  // Of operand i: 0, 1 and 2 are Q, K and V, 3 is the result.
  bool tokens_lead(int i) const { return tokens_first[static_cast<size_t>(i)] != 0; }
  int64_t batch(int i, const Dims& dims) const { return dims[tokens_lead(i) ? 1 : 0]; }
  int64_t tokens(int i, const Dims& dims) const { return dims[tokens_lead(i) ? 0 : 1]; }
  HeadRows of(int i, const Dims& dims) const;
  Dims result(int64_t batch, int64_t queries) const;
  // What a row of operand i must hold.
  int64_t least_width(int i) const;

  int64_t heads, kv_heads, head;
  std::vector<int64_t> starts, tokens_first;
};

void infer_attention_rows(InferContext& ctx);

}  // namespace deepjit
