// Softmax and LogSoftmax along one axis, shifted by the maximum.
#include <cmath>
#include <limits>

#include "ops/common.h"
#include "ops/linear/compute_buffer.h"
#include "ops/nn/norm_families.h"

namespace deepjit {

namespace {

// One [n, inner] block, `inner` independent columns side by side.
template <typename C>
void softmax_block(const C* x, C* y, int64_t n, int64_t inner, bool log, C* peak, C* sum) {
  std::fill_n(peak, inner, -std::numeric_limits<C>::infinity());
  std::fill_n(sum, inner, C(0));
  for (int64_t k = 0; k < n; ++k) {
    const C* row = x + k * inner;
    for (int64_t i = 0; i < inner; ++i) peak[i] = row[i] > peak[i] || row[i] != row[i] ? row[i] : peak[i];
  }
  for (int64_t k = 0; k < n; ++k) {
    for (int64_t i = 0; i < inner; ++i) {
      const C shifted = x[k * inner + i] - peak[i];
      const C e = std::exp(shifted);
      y[k * inner + i] = log ? shifted : e;
      sum[i] += e;
    }
  }
  for (int64_t i = 0; i < inner; ++i) sum[i] = log ? std::log(sum[i]) : C(1) / sum[i];
  for (int64_t k = 0; k < n; ++k) {
    C* row = y + k * inner;
    for (int64_t i = 0; i < inner; ++i) row[i] = log ? row[i] - sum[i] : row[i] * sum[i];
  }
}

void run_softmax(EvalContext& ctx, bool log) {
  const Dims& x = ctx.dims(0);
  int64_t outer = 1, n = 1, inner = 1;
  if (x.rank() > 0) {
    const int axis = normalize_axis(ctx.attrs().get_int("axis", -1), x.rank());
    outer = dims_product(x, 0, axis);
    n = x[axis];
    inner = dims_product(x, axis + 1, x.rank());
  }
  visit_compute(ctx.dtype(0), "Softmax", [&]<typename C>() {
    const C* in = read_compute<C>(ctx, 0);
    ComputeOutput<C> out(ctx, 0, ctx.dtype(0), x);
    C* peak = scratch_array<C>(ctx, inner);
    C* sum = scratch_array<C>(ctx, inner);
    for (int64_t i = 0; i < outer; ++i) {
      softmax_block(in + i * n * inner, out.data() + i * n * inner, n, inner, log, peak, sum);
    }
    out.finish();
  });
}

void infer_softmax(InferContext& ctx) {
  expect_compute_float(ctx, "Softmax", 0);
  const Shape& x = ctx.shape(0);
  if (x.ranked() && x.rank() > 0) normalize_axis(ctx.attrs().get_int("axis", -1), x.rank());
  ctx.set_output(0, ctx.dtype(0), x);
}

}  // namespace

void add_softmax_ops(OpRegistry& registry) {
  registry.add(
      {.name = "Softmax", .infer = infer_softmax, .evaluate = [](EvalContext& ctx) { run_softmax(ctx, false); }});
  registry.add(
      {.name = "LogSoftmax", .infer = infer_softmax, .evaluate = [](EvalContext& ctx) { run_softmax(ctx, true); }});
}

}  // namespace deepjit
