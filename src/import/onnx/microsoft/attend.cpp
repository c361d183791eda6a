#include "import/onnx/microsoft/attend.h"

#include <cmath>
#include <limits>

namespace deepjit::importer {

int64_t require_size(const Value* value, int axis, const std::string& what) {
  const int rank = require_rank(value, what);
  const int at = axis < 0 ? axis + rank : axis;
  if (at < 0 || at >= rank) {
    throw Error(Code::SHAPE_MISMATCH, what + " has shape " + value->type.shape.to_string());
  }
  const Dim& dim = value->type.shape[at];
  if (!dim.is_const()) throw Error(Code::UNSUPPORTED_OP, what + " of unknown size is not supported");
  return dim.value();
}

Value* split_heads(const Emit& emit, Value* x, int64_t heads) {
  return emit.transpose(emit.reshape(x, {0, 0, heads, -1}), {0, 2, 1, 3});
}

Value* join_heads(const Emit& emit, Value* x) { return emit.reshape(emit.transpose(x, {0, 2, 1, 3}), {0, 0, -1}); }

Value* scaled_scores(const Emit& emit, Value* q, Value* k, float scale) {
  Value* scores = emit.matmul(q, emit.swap_last_two(k));
  if (scale != 0) return emit.scale(scores, scale);
  const Dim& size = q->type.shape[q->type.shape.rank() - 1];
  if (size.is_const()) return emit.scale(scores, 1 / std::sqrt(static_cast<double>(size.value())));
  Value* root = emit.op("Sqrt", {emit.cast(emit.dim(q, -1), DType::FLOAT32)});
  return emit.op("Div", {scores, emit.cast_like(root, scores)});
}

double lowest_of(const Value* like) {
  switch (dtype_of(like)) {
    case DType::FLOAT16:
      return -65504;
    case DType::FLOAT64:
      return std::numeric_limits<double>::lowest();
    case DType::BFLOAT16:
      return -3.38e38;
    default:
      return std::numeric_limits<float>::lowest();
  }
}

Value* additive_mask(const Emit& emit, Value* keep, Value* like, double masked) {
  return emit.op("Where", {keep, emit.scalar_like(0, like), emit.scalar_like(masked, like)});
}

Value* causal_mask(const Emit& emit, Value* queries, Value* keys, Value* before) {
  Value* last = emit.unsqueeze(emit.add(emit.range(queries), before), {1});
  return emit.op("LessOrEqual", {emit.range(keys), last});
}

}  // namespace deepjit::importer
