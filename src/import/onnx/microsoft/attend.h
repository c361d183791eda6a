// Attention from canonical ops: what Attention, MultiHeadAttention and GroupQueryAttention share.
#pragma once

#include "import/onnx/microsoft/emit.h"

namespace deepjit::importer {

// The size of one axis, which must be known: Error(UNSUPPORTED_OP) otherwise.
int64_t require_size(const Value* value, int axis, const std::string& what);
// [batch, length, heads * size] to [batch, heads, length, size], and back.
Value* split_heads(const Emit& emit, Value* x, int64_t heads);
Value* join_heads(const Emit& emit, Value* x);
// Scores of q [..., length, size] and k [..., keys, size], scaled: by `scale`, or by 1 / sqrt(size) where it is 0.
Value* scaled_scores(const Emit& emit, Value* q, Value* k, float scale);
// 0 where `keep` holds, else `masked` (rounded to the type of `like`), to be added to scores.
Value* additive_mask(const Emit& emit, Value* keep, Value* like, double masked);
// The lowest number of the type of `like`: what a causal mask adds.
double lowest_of(const Value* like);
// Which of `keys` keys query row s may see when `before` keys precede the queries: [queries, keys] of bool. All three
// are 1-D of one element.
Value* causal_mask(const Emit& emit, Value* queries, Value* keys, Value* before);

}  // namespace deepjit::importer
