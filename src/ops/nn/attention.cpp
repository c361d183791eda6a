// Attention (opset 24), deepjit.Attention and RotaryEmbedding.
#include "ops/nn/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "ops/common.h"
#include "ops/linear/compute_buffer.h"
#include "ops/linear/gemm.h"
#include "ops/nn/attention_rows.h"

namespace deepjit {

namespace {

// Heads and sizes of one Attention node. K and V may be cached: `past` rows come before the `fresh` ones.
struct Sizes {
  int64_t batch, q_heads, kv_heads, q_length, past, fresh, head, v_head;
  HeadRows q, k, v, y;
  bool packed;  // rank 3: [batch, length, heads * head]
  int64_t total() const { return past + fresh; }
};

// Of a tensor with `heads` heads, side by side in rows or as [batch, heads, length, size].
HeadRows rows_of(bool packed, int64_t heads, int64_t length, int64_t size) {
  if (packed) return {0, length * heads * size, size, heads * size};
  return {0, heads * length * size, length * size, size};
}

Sizes sizes_of(const EvalContext& ctx) {
  const Dims &q = ctx.dims(0), &k = ctx.dims(1), &v = ctx.dims(2);
  Sizes s;
  s.packed = q.rank() == 3;
  s.batch = q[0];
  s.past = ctx.has_input(4) ? ctx.dims(4)[2] : 0;
  if (s.packed) {
    s.q_heads = ctx.attrs().require_int("q_num_heads");
    s.kv_heads = ctx.attrs().require_int("kv_num_heads");
    s.q_length = q[1];
    s.fresh = k[1];
    s.head = q[2] / s.q_heads;
    s.v_head = v[2] / s.kv_heads;
  } else {
    s.q_heads = q[1];
    s.kv_heads = k[1];
    s.q_length = q[2];
    s.fresh = k[2];
    s.head = q[3];
    s.v_head = v[3];
  }
  if (s.kv_heads < 1 || s.q_heads % s.kv_heads != 0) {
    throw Error(Code::SHAPE_MISMATCH, "Attention: " + std::to_string(s.q_heads) + " query heads do not share " +
                                          std::to_string(s.kv_heads) + " key heads");
  }
  s.q = rows_of(s.packed, s.q_heads, s.q_length, s.head);
  s.k = rows_of(s.packed, s.kv_heads, s.fresh, s.head);
  s.v = rows_of(s.packed, s.kv_heads, s.fresh, s.v_head);
  s.y = rows_of(s.packed, s.q_heads, s.q_length, s.v_head);
  return s;
}

// The same of a deepjit.Attention.
Sizes sizes_in_place(const EvalContext& ctx) {
  const AttentionRows rows(ctx.attrs());
  Sizes s{};
  s.packed = true;
  s.q_heads = rows.heads;
  s.kv_heads = rows.kv_heads;
  s.head = s.v_head = rows.head;
  s.batch = rows.batch(0, ctx.dims(0));
  s.q_length = rows.tokens(0, ctx.dims(0));
  s.fresh = rows.tokens(1, ctx.dims(1));
  s.q = rows.of(0, ctx.dims(0));
  s.k = rows.of(1, ctx.dims(1));
  s.v = rows.of(2, ctx.dims(2));
  s.y = rows.of(3, rows.result(s.batch, s.q_length));
  return s;
}

// The mask input as something to add to one row of scores.
template <typename C>
class Mask {
 public:
  Mask(EvalContext& ctx, const Sizes& s) : width_(s.total()) {
    if (!ctx.has_input(3)) return;
    const TensorView& view = ctx.input(3);
    dims_ = view.dims;
    if (dims_.rank() < 1 || dims_.rank() > 4 || dims_.back() > width_) {
      throw Error(Code::SHAPE_MISMATCH,
                  "Attention: the mask " + dims_.to_string() + " does not fit " + std::to_string(width_) + " keys");
    }
    strides_ = dims_.strides();
    const int64_t sizes[3] = {s.batch, s.q_heads, s.q_length};
    for (int i = 0; i + 1 < dims_.rank(); ++i) {
      const int64_t expected = sizes[4 - dims_.rank() + i];
      if (dims_[i] != 1 && dims_[i] != expected) {
        throw Error(Code::SHAPE_MISMATCH, "Attention: the mask " + dims_.to_string() + " does not broadcast");
      }
    }
    if (view.dtype == DType::BOOL) {
      bools_ = view.as<const uint8_t>();
    } else {
      floats_ = read_compute<C>(ctx, view);
    }
  }
  // Adds the mask to the scores of query row q. Keys beyond the mask's width are masked out.
  void add(int64_t b, int64_t h, int64_t q, C* scores) const {
    if (bools_ == nullptr && floats_ == nullptr) return;
    const int64_t index[3] = {b, h, q};
    int64_t at = 0;
    for (int i = 0; i + 1 < dims_.rank(); ++i) {
      if (dims_[i] != 1) at += index[4 - dims_.rank() + i] * strides_[i];
    }
    constexpr C kOut = -std::numeric_limits<C>::infinity();
    for (int64_t k = 0; k < dims_.back(); ++k) {
      if (bools_ != nullptr) {
        if (bools_[at + k] == 0) scores[k] = kOut;
      } else {
        scores[k] += floats_[at + k];
      }
    }
    std::fill(scores + dims_.back(), scores + width_, kOut);
  }

 private:
  int64_t width_;
  Dims dims_, strides_;
  const uint8_t* bools_ = nullptr;
  const C* floats_ = nullptr;
};

template <typename C>
void softmax_row(C* x, int64_t n) {
  C peak = -std::numeric_limits<C>::infinity(), sum = 0;
  for (int64_t i = 0; i < n; ++i) peak = x[i] > peak || x[i] != x[i] ? x[i] : peak;
  for (int64_t i = 0; i < n; ++i) {
    x[i] = std::exp(x[i] - peak);
    sum += x[i];
  }
  for (int64_t i = 0; i < n; ++i) x[i] /= sum;
}

// Inputs and options of one run, in computing type.
template <typename C>
struct Work {
  Sizes s;
  const C *q, *k, *v, *past_k, *past_v;
  C scale, softcap;
  bool causal;
  int64_t output_mode;
  std::vector<int64_t> valid;  // nonpad_kv_seqlen; empty when absent
};

// Scores of one head: scaled products, mask, causal mask, softcap, softmax. `keep` (may be nullptr) receives the
// scores at the stage that qk_matmul_output_mode names.
template <typename C>
void head_scores(const Work<C>& w, const Mask<C>& mask, int64_t b, int64_t h, C* scores, C* keep) {
  const Sizes& s = w.s;
  const int64_t total = s.total(), kv = h / (s.q_heads / s.kv_heads);
  const MatrixRef<C> queries{w.q + s.q.at(b, h), s.q.row, 1};
  if (s.past > 0) {
    const HeadRows p = rows_of(false, s.kv_heads, s.past, s.head);
    gemm<C>(s.q_length, s.past, s.head, queries, {w.past_k + p.at(b, kv), 1, p.row}, scores, total);
  }
  gemm<C>(s.q_length, s.fresh, s.head, queries, {w.k + s.k.at(b, kv), 1, s.k.row}, scores + s.past, total);
  for (int64_t i = 0; i < s.q_length * total; ++i) scores[i] *= w.scale;
  auto stage = [&](int64_t mode) {
    if (keep != nullptr && w.output_mode == mode) std::copy_n(scores, s.q_length * total, keep);
  };
  stage(0);
  constexpr C kOut = -std::numeric_limits<C>::infinity();
  for (int64_t i = 0; i < s.q_length; ++i) {
    C* row = scores + i * total;
    mask.add(b, h, i, row);
    if (w.causal) std::fill(row + std::min(total, s.past + i + 1), row + total, kOut);
    if (!w.valid.empty()) {
      std::fill(row + std::clamp<int64_t>(w.valid[static_cast<size_t>(b)], 0, total), row + total, kOut);
    }
  }
  stage(1);
  if (w.softcap > C(0)) {
    for (int64_t i = 0; i < s.q_length * total; ++i) scores[i] = w.softcap * std::tanh(scores[i] / w.softcap);
  }
  stage(2);
  for (int64_t i = 0; i < s.q_length; ++i) softmax_row(scores + i * total, total);
  stage(3);
}

template <typename C>
void run_heads(const Work<C>& w, const Mask<C>& mask, C* scores, C* kept, C* y) {
  const Sizes& s = w.s;
  const int64_t total = s.total();
  for (int64_t b = 0; b < s.batch; ++b) {
    for (int64_t h = 0; h < s.q_heads; ++h) {
      const int64_t kv = h / (s.q_heads / s.kv_heads);
      C* keep = kept == nullptr ? nullptr : kept + (b * s.q_heads + h) * s.q_length * total;
      head_scores(w, mask, b, h, scores, keep);
      C* out = y + s.y.at(b, h);
      gemm<C>(s.q_length, s.v_head, s.fresh, {scores + s.past, total, 1}, {w.v + s.v.at(b, kv), s.v.row, 1}, out,
              s.y.row);
      if (s.past > 0) {
        const HeadRows p = rows_of(false, s.kv_heads, s.past, s.v_head);
        gemm<C>(s.q_length, s.v_head, s.past, {scores, total, 1}, {w.past_v + p.at(b, kv), p.row, 1}, out, s.y.row,
                true);
      }
    }
  }
}

// present = past then fresh, as [batch, heads, total, size], in the tensors' own type.
void write_present(EvalContext& ctx, int output, int fresh_input, int past_input, const Sizes& s, int64_t size) {
  if (!ctx.has_output(output)) return;
  const DType dtype = ctx.dtype(fresh_input);
  TensorView out = ctx.output(output, dtype, {s.batch, s.kv_heads, s.total(), size});
  visit_storage(dtype, [&]<typename T>() {
    T* to = out.as<T>();
    const T* fresh = ctx.data<const T>(fresh_input);
    for (int64_t b = 0; b < s.batch; ++b) {
      for (int64_t h = 0; h < s.kv_heads; ++h) {
        if (s.past > 0) {
          std::copy_n(ctx.data<const T>(past_input) + (b * s.kv_heads + h) * s.past * size, s.past * size, to);
        }
        to += s.past * size;
        const HeadRows from = rows_of(s.packed, s.kv_heads, s.fresh, size);
        for (int64_t i = 0; i < s.fresh; ++i, to += size) std::copy_n(fresh + from.at(b, h) + i * from.row, size, to);
      }
    }
  });
}

template <typename C>
void run_attention(EvalContext& ctx, const Sizes& s, const Dims& y_dims) {
  const Attributes& attrs = ctx.attrs();
  Work<C> w;
  w.s = s;
  w.q = read_compute<C>(ctx, 0);
  w.k = read_compute<C>(ctx, 1);
  w.v = read_compute<C>(ctx, 2);
  w.past_k = read_optional<C>(ctx, 4);
  w.past_v = read_optional<C>(ctx, 5);
  w.scale = attrs.has("scale") ? attrs.get_float("scale", 1) : C(1) / std::sqrt(static_cast<C>(s.head));
  w.softcap = attrs.get_float("softcap", 0);
  w.causal = attrs.get_int("is_causal", 0) != 0;
  w.output_mode = attrs.get_int("qk_matmul_output_mode", 0);
  if (ctx.has_input(6)) {
    w.valid = ctx.ints(6);
    if (w.valid.size() != static_cast<size_t>(s.batch)) {
      throw Error(Code::SHAPE_MISMATCH, "Attention: nonpad_kv_seqlen needs one entry a batch item");
    }
  }
  const Mask<C> mask(ctx, s);
  const DType dtype = ctx.dtype(0);
  ComputeOutput<C> y(ctx, 0, dtype, y_dims);
  std::optional<ComputeOutput<C>> kept;
  if (ctx.has_output(3)) kept.emplace(ctx, 3, dtype, Dims{s.batch, s.q_heads, s.q_length, s.total()});
  C* scores = scratch_array<C>(ctx, s.q_length * s.total());
  run_heads(w, mask, scores, kept ? kept->data() : nullptr, y.data());
  y.finish();
  if (kept) kept->finish();
  write_present(ctx, 1, 1, 4, s, s.head);
  write_present(ctx, 2, 2, 5, s, s.v_head);
}

void evaluate_attention(EvalContext& ctx) {
  const Sizes s = sizes_of(ctx);
  const Dims y =
      s.packed ? Dims{s.batch, s.q_length, s.q_heads * s.v_head} : Dims{s.batch, s.q_heads, s.q_length, s.v_head};
  visit_compute(ctx.dtype(0), "Attention", [&]<typename C>() { run_attention<C>(ctx, s, y); });
}

void evaluate_in_place(EvalContext& ctx) {
  const Sizes s = sizes_in_place(ctx);
  const Dims y = AttentionRows(ctx.attrs()).result(s.batch, s.q_length);
  visit_compute(ctx.dtype(0), "deepjit.Attention", [&]<typename C>() { run_attention<C>(ctx, s, y); });
}

// [batch, heads, length, head size] of Q, K or V, from rank 3 or 4.
std::vector<Dim> head_dims(InferContext& ctx, int input, const std::string& heads_attribute) {
  const Shape& x = ctx.shape(input);
  if (x.rank() == 4) return x.dims();
  const int64_t heads = ctx.attrs().require_int(heads_attribute);
  if (heads < 1) throw Error(Code::ATTRIBUTE, heads_attribute + " is " + std::to_string(heads));
  if (x[2].is_const() && x[2].value() % heads != 0) {
    throw Error(Code::SHAPE_MISMATCH, "Attention: hidden size " + x[2].to_string() + " does not split into " +
                                          std::to_string(heads) + " heads");
  }
  return {x[0], Dim(heads), x[1], floordiv(x[2], Dim(heads))};
}

void expect_equal_dims(const Dim& a, const Dim& b, const std::string& what) {
  if (!a.is_const() || !b.is_const() || a == b) return;
  throw Error(Code::SHAPE_MISMATCH, "Attention: " + what + " differ: " + a.to_string() + " and " + b.to_string());
}

// Keys in all: the cached ones and the new ones. k and v are [batch, heads, length, head size].
Dim total_length(InferContext& ctx, const std::vector<Dim>& k, const std::vector<Dim>& v) {
  if (!ctx.has_input(4)) return k[2];
  const Shape &past_k = ctx.shape(4), &past_v = ctx.shape(5);
  if (!past_k.ranked() || !past_v.ranked()) return ctx.fresh_dim();
  if (past_k.rank() != 4 || past_v.rank() != 4) {
    throw Error(Code::SHAPE_MISMATCH, "Attention: past_key and past_value must have rank 4");
  }
  for (int i : {0, 1, 3}) {
    expect_equal_dims(past_k[i], k[static_cast<size_t>(i)], "dims " + std::to_string(i) + " of past_key and K");
    expect_equal_dims(past_v[i], v[static_cast<size_t>(i)], "dims " + std::to_string(i) + " of past_value and V");
  }
  expect_equal_dims(past_k[2], past_v[2], "lengths of past_key and past_value");
  return past_k[2] + k[2];
}

void infer_attention(InferContext& ctx) {
  expect_compute_float(ctx, "Attention", 0);
  const DType dtype = ctx.dtype(0);
  for (int i = 0; i < 3; ++i) {
    if (!ctx.shape(i).ranked()) {
      for (int o = 0; o < ctx.num_outputs(); ++o) ctx.set_output(o, o == 2 ? ctx.dtype(2) : dtype, Shape());
      return;
    }
    if (ctx.shape(i).rank() != ctx.shape(0).rank() || (ctx.shape(i).rank() != 3 && ctx.shape(i).rank() != 4)) {
      throw Error(Code::SHAPE_MISMATCH, "Attention: Q, K and V must all have rank 3 or all rank 4");
    }
  }
  if (ctx.has_input(4) != ctx.has_input(5)) {
    throw Error(Code::ARITY, "Attention: past_key and past_value are given together or not at all");
  }
  const std::vector<Dim> q = head_dims(ctx, 0, "q_num_heads"), k = head_dims(ctx, 1, "kv_num_heads"),
                         v = head_dims(ctx, 2, "kv_num_heads");
  expect_equal_dims(q[0], k[0], "batches of Q and K");
  expect_equal_dims(q[0], v[0], "batches of Q and V");
  expect_equal_dims(q[3], k[3], "head sizes of Q and K");
  expect_equal_dims(k[1], v[1], "heads of K and V");
  expect_equal_dims(k[2], v[2], "lengths of K and V");
  if (q[1].is_const() && k[1].is_const() && (k[1].value() < 1 || q[1].value() % k[1].value() != 0)) {
    throw Error(Code::SHAPE_MISMATCH,
                "Attention: " + q[1].to_string() + " query heads do not share " + k[1].to_string() + " key heads");
  }
  const Dim total = total_length(ctx, k, v);
  const bool packed = ctx.shape(0).rank() == 3;
  ctx.set_output(0, dtype, packed ? Shape({q[0], q[2], q[1] * v[3]}) : Shape({q[0], q[1], q[2], v[3]}));
  if (ctx.num_outputs() > 1) ctx.set_output(1, ctx.dtype(1), Shape({q[0], k[1], total, k[3]}));
  if (ctx.num_outputs() > 2) ctx.set_output(2, ctx.dtype(2), Shape({q[0], k[1], total, v[3]}));
  if (ctx.num_outputs() > 3) ctx.set_output(3, dtype, Shape({q[0], q[1], q[2], total}));
}

}  // namespace

void add_attention_ops(OpRegistry& registry) {
  registry.add({.name = "Attention",
                .min_inputs = 3,
                .max_inputs = 7,
                .max_outputs = 4,
                .infer = infer_attention,
                .evaluate = evaluate_attention});
  registry.add({.name = "deepjit.Attention",
                .min_inputs = 3,
                .max_inputs = 4,
                .infer = infer_attention_rows,
                .evaluate = evaluate_in_place});
  add_rotary_embedding_op(registry);
}

}  // namespace deepjit
