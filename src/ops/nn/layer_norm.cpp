// LayerNormalization and RMSNormalization. Statistics are summed in double, within the range of float, and everything
// else is computed in float (double for float64), which covers stash_type 1 for every element type.
#include <cmath>

#include "ops/common.h"
#include "ops/linear/compute_buffer.h"
#include "ops/nn/norm_families.h"
#include "ops/reduce/float_sum.h"

namespace deepjit {

namespace {

// A scale or bias that broadcasts to X: its value at every element of the rows, expanded only where needed.
template <typename C>
class Broadcast {
 public:
  Broadcast(EvalContext& ctx, int input, const Dims& x, int64_t row) {
    if (!ctx.has_input(input)) return;
    data_ = read_compute<C>(ctx, input);
    const Dims& own = ctx.dims(input);
    if (own.count() == row && matches_tail(own, x)) return;
    if (broadcast_dims(own, x) != x) {
      throw Error(Code::SHAPE_MISMATCH,
                  "a scale or bias of shape " + own.to_string() + " does not broadcast to " + x.to_string());
    }
    expand(ctx, own, x);
    stride_ = row;
  }
  // Values for row r; nullptr when the input is omitted.
  const C* row(int64_t r) const { return data_ == nullptr ? nullptr : data_ + r * stride_; }

 private:
  static bool matches_tail(const Dims& own, const Dims& x) {
    if (own.rank() > x.rank()) return false;
    for (int i = 0; i < own.rank(); ++i) {
      if (own[i] != x[x.rank() - own.rank() + i]) return false;
    }
    return true;
  }
  void expand(EvalContext& ctx, const Dims& own, const Dims& x) {
    C* out = scratch_array<C>(ctx, x.count());
    const Dims strides = own.strides();
    for (int64_t i = 0; i < x.count(); ++i) {
      int64_t rest = i, at = 0;
      for (int d = x.rank() - 1; d >= 0; --d) {
        const int k = d - (x.rank() - own.rank());
        if (k >= 0 && own[k] != 1) at += rest % x[d] * strides[k];
        rest /= x[d];
      }
      out[i] = data_[at];
    }
    data_ = out;
  }
  const C* data_ = nullptr;
  int64_t stride_ = 0;
};

DType stash_dtype(const Attributes& attrs) {
  const DType stash = static_cast<DType>(attrs.get_int("stash_type", 1));
  if (!is_float(stash)) throw Error(Code::ATTRIBUTE, "stash_type is not a floating-point type");
  return stash;
}

Dims reduced_dims(const Dims& x, int axis) {
  Dims out = x;
  for (int i = axis; i < x.rank(); ++i) out[i] = 1;
  return out;
}

// The statistics' type is the attribute's, whatever the values are computed in.
void write_statistic(EvalContext& ctx, int output, const double* values, const Dims& dims) {
  if (!ctx.has_output(output)) return;
  ComputeOutput<double> out(ctx, output, stash_dtype(ctx.attrs()), dims);
  std::copy_n(values, dims.count(), out.data());
  out.finish();
}

template <typename C>
void normalize_rows(EvalContext& ctx, bool centered) {
  const Dims& x = ctx.dims(0);
  const int axis = normalize_axis(ctx.attrs().get_int("axis", -1), x.rank());
  const int64_t rows = dims_product(x, 0, axis), n = dims_product(x, axis, x.rank());
  const double epsilon = ctx.attrs().get_float("epsilon", 1e-5f);
  const C* in = read_compute<C>(ctx, 0);
  const Broadcast<C> scale(ctx, 1, x, n), bias(ctx, 2, x, n);
  ComputeOutput<C> out(ctx, 0, ctx.dtype(0), x);
  double* means = scratch_array<double>(ctx, rows);
  double* inverses = scratch_array<double>(ctx, rows);
  for (int64_t r = 0; r < rows; ++r) {
    const C* from = in + r * n;
    C* to = out.data() + r * n;
    double mean = 0, square = 0;
    for (int64_t i = 0; i < n && centered; ++i) mean += from[i];
    mean = sum_in_range<C>(mean) / static_cast<double>(n);
    if (!centered) mean = 0;
    for (int64_t i = 0; i < n; ++i) square += (from[i] - mean) * (from[i] - mean);
    means[r] = mean;
    inverses[r] = 1.0 / std::sqrt(sum_in_range<C>(square) / static_cast<double>(n) + epsilon);
    const C center = static_cast<C>(mean), inverse = static_cast<C>(inverses[r]);
    const C* factor = scale.row(r);
    const C* offset = bias.row(r);
    for (int64_t i = 0; i < n; ++i) to[i] = (from[i] - center) * inverse * factor[i];
    for (int64_t i = 0; i < n && offset != nullptr; ++i) to[i] += offset[i];
  }
  out.finish();
  write_statistic(ctx, 1, means, reduced_dims(x, axis));
  write_statistic(ctx, 2, inverses, reduced_dims(x, axis));
}

void evaluate_layer_norm(EvalContext& ctx) {
  visit_compute(ctx.dtype(0), "LayerNormalization", [&]<typename C>() { normalize_rows<C>(ctx, true); });
}
void evaluate_rms_norm(EvalContext& ctx) {
  visit_compute(ctx.dtype(0), "RMSNormalization", [&]<typename C>() { normalize_rows<C>(ctx, false); });
}

void check_broadcasts_to(const InferContext& ctx, int i) {
  if (!ctx.has_input(i) || !ctx.shape(i).ranked()) return;
  const Shape &s = ctx.shape(i), &x = ctx.shape(0);
  bool fits = s.rank() <= x.rank();
  for (int k = 0; fits && k < s.rank(); ++k) {
    const Dim& to = x[x.rank() - s.rank() + k];
    fits = !s[k].is_const() || s[k] == 1 || !to.is_const() || s[k] == to;
  }
  if (!fits) {
    throw Error(Code::SHAPE_MISMATCH,
                "a scale or bias of shape " + s.to_string() + " does not broadcast to " + x.to_string());
  }
}

void infer_layer_norm(InferContext& ctx) {
  expect_compute_float(ctx, "normalization", 0);
  const Shape& x = ctx.shape(0);
  ctx.set_output(0, ctx.dtype(0), x);
  Shape statistics;
  if (x.ranked()) {
    const int axis = normalize_axis(ctx.attrs().get_int("axis", -1), x.rank());
    check_broadcasts_to(ctx, 1);
    check_broadcasts_to(ctx, 2);
    statistics = x;
    for (int i = axis; i < x.rank(); ++i) statistics[i] = Dim(1);
  }
  const DType stash = stash_dtype(ctx.attrs());
  for (int i = 1; i < ctx.num_outputs(); ++i) ctx.set_output(i, stash, statistics);
}

}  // namespace

void add_layer_norm_ops(OpRegistry& registry) {
  registry.add({.name = "LayerNormalization",
                .min_inputs = 2,
                .max_inputs = 3,
                .max_outputs = 3,
                .infer = infer_layer_norm,
                .evaluate = evaluate_layer_norm});
  registry.add({.name = "RMSNormalization",
                .min_inputs = 2,
                .max_inputs = 2,
                .infer = infer_layer_norm,
                .evaluate = evaluate_rms_norm});
}

}  // namespace deepjit
