// GlobalAveragePool, GlobalMaxPool, GlobalLpPool and MaxUnpool.
#include <cmath>
#include <limits>

#include "ops/common.h"
#include "ops/linear/compute_buffer.h"
#include "ops/linear/conv_shape.h"
#include "ops/linear/window.h"
#include "ops/nn/pool_families.h"

namespace deepjit {

namespace {

Dims global_dims(const Dims& x, bool last) {
  Dims y = x;
  for (int i = last ? 1 : 2; i < x.rank() - (last ? 1 : 0); ++i) y[i] = 1;
  return y;
}

// Folds each channel's positions: result = finish(fold of combine from initial, number of positions).
template <typename C, typename F, typename G>
void fold_positions(EvalContext& ctx, C initial, F combine, G finish) {
  const Dims& x = ctx.dims(0);
  const bool last = is_channels_last(ctx.attrs());
  const Dims result = global_dims(x, last);
  ComputeOutput<C> out(ctx, 0, ctx.dtype(0), result);
  const C* in = read_compute<C>(ctx, 0);
  const int64_t channels = last ? x.back() : x[1];
  int64_t positions = 1;
  for (int i = last ? 1 : 2; i < x.rank() - (last ? 1 : 0); ++i) positions *= x[i];
  C* y = out.data();
  std::fill_n(y, result.count(), initial);
  for (int64_t n = 0; n < x[0]; ++n, y += channels) {
    for (int64_t i = 0; i < (last ? positions : channels); ++i) {
      if (last) {
        for (int64_t c = 0; c < channels; ++c) y[c] = combine(y[c], *in++);
      } else {
        for (int64_t j = 0; j < positions; ++j) y[i] = combine(y[i], *in++);
      }
    }
    for (int64_t c = 0; c < channels; ++c) y[c] = finish(y[c], positions);
  }
  out.finish();
}

void evaluate_global_average(EvalContext& ctx) {
  visit_compute(ctx.dtype(0), "GlobalAveragePool", [&]<typename C>() {
    fold_positions<C>(
        ctx, C(0), [](C a, C b) { return a + b; }, [](C a, int64_t n) { return a / static_cast<C>(n); });
  });
}

void evaluate_global_max(EvalContext& ctx) {
  visit_compute(ctx.dtype(0), "GlobalMaxPool", [&]<typename C>() {
    fold_positions<C>(
        ctx, -std::numeric_limits<C>::infinity(), [](C a, C b) { return b > a || b != b ? b : a; },
        [](C a, int64_t) { return a; });
  });
}

void evaluate_global_lp(EvalContext& ctx) {
  const int64_t power = ctx.attrs().get_int("p", 2);
  visit_compute(ctx.dtype(0), "GlobalLpPool", [&]<typename C>() {
    const C p = static_cast<C>(power);
    fold_positions<C>(
        ctx, C(0), [=](C a, C b) { return a + std::pow(std::fabs(b), p); },
        [=](C a, int64_t) { return std::pow(a, C(1) / p); });
  });
}

void infer_global(InferContext& ctx) {
  expect_compute_float(ctx, "global pooling", 0);
  const Shape& x = ctx.shape(0);
  if (!x.ranked()) return ctx.set_output(0, ctx.dtype(0), Shape());
  if (x.rank() < 2) throw Error(Code::SHAPE_MISMATCH, "the input " + x.to_string() + " has no channels");
  if (ctx.attrs().get_int("p", 2) < 1) throw Error(Code::ATTRIBUTE, "p must be at least 1");
  const bool last = is_channels_last(ctx.attrs());
  const std::vector<Dim> ones(static_cast<size_t>(x.rank() - 2), Dim(1));
  ctx.set_output(0, ctx.dtype(0), Shape(join_layout(last, x[0], channel_dim(last, x.dims()), ones)));
}

// The image that the pooled values came from: spatial dims by the window sizes.
template <typename D>
std::vector<D> unpooled_dims(const Attributes& attrs, const std::vector<D>& x) {
  const size_t rank = x.size() - 2;
  const std::vector<int64_t> kernel = attrs.get_ints("kernel_shape");
  std::vector<int64_t> strides = attrs.get_ints("strides"), pads = attrs.get_ints("pads");
  if (strides.empty()) strides.assign(rank, 1);
  if (pads.empty()) pads.assign(2 * rank, 0);
  if (kernel.size() != rank || strides.size() != rank || pads.size() != 2 * rank) {
    throw Error(Code::ATTRIBUTE,
                "kernel_shape, strides or pads do not fit an input of rank " + std::to_string(x.size()));
  }
  std::vector<D> y(x.begin(), x.begin() + 2);
  for (size_t i = 0; i < rank; ++i) {
    const Dim size =  // Dims are added and multiplied with checks
        (Dim(x[i + 2]) - 1) * Dim(strides[i]) + Dim(kernel[i]) - Dim(pads[i]) - Dim(pads[rank + i]);
    if constexpr (std::is_same_v<D, int64_t>) {
      y.push_back(size.value());
    } else {
      y.push_back(size);
    }
  }
  return y;
}

void evaluate_max_unpool(EvalContext& ctx) {
  const std::vector<int64_t> inner = unpooled_dims(ctx.attrs(), to_vector(ctx.dims(0)));
  const std::vector<int64_t> wanted = ctx.has_input(2) ? ctx.ints(2) : inner;
  if (wanted.size() != inner.size()) throw Error(Code::SHAPE_MISMATCH, "MaxUnpool: output_shape has a wrong length");
  const Dims result((std::span<const int64_t>(wanted)));
  if (ctx.dims(1).count() != ctx.dims(0).count()) {
    throw Error(Code::SHAPE_MISMATCH,
                "MaxUnpool: indices " + ctx.dims(1).to_string() + " for values " + ctx.dims(0).to_string());
  }
  const int64_t limit = WindowMap::product(inner);
  const int64_t* indices = ctx.data<const int64_t>(1);
  const Dims strides = result.strides();
  visit_storage(ctx.dtype(0), [&]<typename T>() {
    T* y = ctx.output(0, ctx.dtype(0), result).as<T>();
    const T* x = ctx.data<const T>(0);
    std::fill_n(y, result.count(), T(0));
    for (int64_t i = 0; i < ctx.dims(0).count(); ++i) {
      if (indices[i] < 0 || indices[i] >= limit) {
        throw Error(Code::INDEX_RANGE, "MaxUnpool: index " + std::to_string(indices[i]) + " is outside [0, " +
                                           std::to_string(limit) + ")");
      }
      int64_t rest = indices[i], at = 0;
      bool inside = true;
      for (int d = result.rank() - 1; d >= 0; --d) {
        const int64_t position = rest % inner[static_cast<size_t>(d)];
        rest /= inner[static_cast<size_t>(d)];
        inside = inside && position < result[d];
        at += position * strides[d];
      }
      if (inside) y[at] = x[i];
    }
  });
}

void infer_max_unpool(InferContext& ctx) {
  const Shape& x = ctx.shape(0);
  if (x.ranked() && x.rank() < 3) throw Error(Code::SHAPE_MISMATCH, "MaxUnpool needs a rank of at least 3");
  if (ctx.has_input(2)) {
    const std::vector<Dim>* wanted = ctx.input_values(2);
    Shape y = x.ranked() ? ctx.fresh_shape(x.rank()) : Shape();
    if (wanted != nullptr) y = Shape(*wanted);
    return ctx.set_output(0, ctx.dtype(0), y);
  }
  ctx.set_output(0, ctx.dtype(0), x.ranked() ? Shape(unpooled_dims(ctx.attrs(), x.dims())) : Shape());
}

}  // namespace

void add_global_pool_ops(OpRegistry& registry) {
  registry.add({.name = "GlobalAveragePool", .infer = infer_global, .evaluate = evaluate_global_average});
  registry.add({.name = "deepjit.GlobalAveragePool", .infer = infer_global, .evaluate = evaluate_global_average});
  registry.add({.name = "GlobalMaxPool", .infer = infer_global, .evaluate = evaluate_global_max});
  registry.add({.name = "GlobalLpPool", .infer = infer_global, .evaluate = evaluate_global_lp});
  registry.add({.name = "MaxUnpool",
                .min_inputs = 2,
                .max_inputs = 3,
                .infer = infer_max_unpool,
                .evaluate = evaluate_max_unpool,
                .shape_inputs = {2}});
}

}  // namespace deepjit
