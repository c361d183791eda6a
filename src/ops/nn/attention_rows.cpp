#include "ops/nn/attention_rows.h"

#include "ops/common.h"

namespace deepjit {

AttentionRows::AttentionRows(const Attributes& attrs)
    : heads(attrs.require_int("q_num_heads")),
      kv_heads(attrs.require_int("kv_num_heads")),
      head(attrs.require_int("head_size")),
      starts(attrs.get_ints("starts", {0, 0, 0})),
      tokens_first(attrs.get_ints("tokens_first", {0, 0, 0, 0})) {
  if (heads < 1 || kv_heads < 1 || heads % kv_heads != 0 || head < 1) {
    throw Error(Code::ATTRIBUTE, "deepjit.Attention: " + std::to_string(heads) + " query heads of " +
                                     std::to_string(head) + " do not share " + std::to_string(kv_heads) + " key heads");
  }
  if (starts.size() != 3 || tokens_first.size() != 4 || starts[0] < 0 || starts[1] < 0 || starts[2] < 0) {
    throw Error(Code::ATTRIBUTE, "deepjit.Attention: starts are of Q, K and V, tokens_first also of the result");
  }
}

HeadRows AttentionRows::of(int i, const Dims& dims) const {
  const int64_t width = dims[2];
  const int64_t start = i < 3 ? starts[static_cast<size_t>(i)] : 0;
  return tokens_lead(i) ? HeadRows{start, width, head, dims[1] * width} : HeadRows{start, dims[1] * width, head, width};
}

Dims AttentionRows::result(int64_t batch, int64_t queries) const {
  return tokens_lead(3) ? Dims{queries, batch, heads * head} : Dims{batch, queries, heads * head};
}

int64_t AttentionRows::least_width(int i) const {
  const int64_t all = checked_mul(i == 0 || i == 3 ? heads : kv_heads, head);
  return i < 3 ? checked_add(starts[static_cast<size_t>(i)], all) : all;
}

void infer_attention_rows(InferContext& ctx) {
  expect_compute_float(ctx, "deepjit.Attention", 0);
  const AttentionRows rows(ctx.attrs());
  for (int i = 0; i < 3; ++i) {
    const Shape& x = ctx.shape(i);
    if (!x.ranked()) return ctx.set_output(0, ctx.dtype(0), Shape());
    if (x.rank() != 3 || (x[2].is_const() && x[2].value() < rows.least_width(i))) {
      throw Error(Code::SHAPE_MISMATCH, "deepjit.Attention: operand " + std::to_string(i) + " " + x.to_string() +
                                            " has no rows of " + std::to_string(rows.least_width(i)));
    }
  }
  const auto batch = [&](int i) { return ctx.shape(i)[rows.tokens_lead(i) ? 1 : 0]; };
  const auto tokens = [&](int i) { return ctx.shape(i)[rows.tokens_lead(i) ? 0 : 1]; };
  const auto equal = [](const Dim& a, const Dim& b) { return !a.is_const() || !b.is_const() || a == b; };
  if (!equal(batch(0), batch(1)) || !equal(batch(0), batch(2)) || !equal(tokens(1), tokens(2))) {
    throw Error(Code::SHAPE_MISMATCH, "deepjit.Attention: batches of Q, K and V, or lengths of K and V, differ");
  }
  const Dim width(rows.heads * rows.head);
  ctx.set_output(0, ctx.dtype(0),
                 rows.tokens_lead(3) ? Shape({tokens(0), batch(0), width}) : Shape({batch(0), tokens(0), width}));
}

}  // namespace deepjit
