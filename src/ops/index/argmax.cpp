// ArgMax, ArgMin and Hardmax. A NaN never beats a number before it.
#include <algorithm>

#include "base/visit.h"
#include "ops/common.h"
#include "ops/index/sort.h"

namespace deepjit {

namespace {

int arg_axis(const Attributes& attrs, int rank, int64_t fallback) {
  return normalize_axis(attrs.get_int("axis", fallback), rank, "axis");
}

void infer_arg(InferContext& ctx) {
  expect_numeric(ctx, "ArgMax or ArgMin", 0);
  const Shape& in = ctx.shape(0);
  if (!in.ranked()) return ctx.set_output(0, DType::INT64, Shape());
  const int axis = arg_axis(ctx.attrs(), in.rank(), 0);
  if (in[axis] == 0) throw Error(Code::SHAPE_MISMATCH, "ArgMax or ArgMin: the axis has no elements");
  std::vector<Dim> out = in.dims();
  if (ctx.attrs().get_int("keepdims", 1) != 0) {
    out[static_cast<size_t>(axis)] = 1;
  } else {
    out.erase(out.begin() + axis);
  }
  ctx.set_output(0, DType::INT64, Shape(std::move(out)));
}

// The index of the best of n contiguous elements. Most blocks hold no better one, which is quick to see.
template <typename T, typename B>
int64_t best_index(const T* in, int64_t n, B beats) {
  using C = compute_t<T>;
  constexpr int64_t kBlock = 64;
  C best = static_cast<C>(in[0]);
  int64_t index = 0;
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    const int64_t end = std::min(n, begin + kBlock);
    if (end - begin == kBlock) {
      int32_t any = 0;
      for (int64_t j = 0; j < kBlock; ++j) any |= static_cast<int32_t>(beats(static_cast<C>(in[begin + j]), best));
      if (any == 0) continue;
    }
    for (int64_t j = begin; j < end; ++j) {
      const C value = static_cast<C>(in[j]);
      if (!beats(value, best)) continue;
      best = value;
      index = j;
    }
  }
  return index;
}

// For each of the view's rows, the index of its best element. B says whether a candidate beats the best.
template <typename T, typename B>
void best_indices(const AxisView& view, const T* in, int64_t* out, B beats) {
  using C = compute_t<T>;
  if (view.inner == 1) {
    for (int64_t o = 0; o < view.outer; ++o, in += view.size) out[o] = best_index(in, view.size, beats);
    return;
  }
  std::vector<C> best(static_cast<size_t>(view.inner));
  for (int64_t o = 0; o < view.outer; ++o, in += view.size * view.inner, out += view.inner) {
    for (int64_t i = 0; i < view.inner; ++i) {
      best[static_cast<size_t>(i)] = static_cast<C>(in[i]);
      out[i] = 0;
    }
    for (int64_t j = 1; j < view.size; ++j) {
      const T* row = in + j * view.inner;
      for (int64_t i = 0; i < view.inner; ++i) {
        const C value = static_cast<C>(row[i]);
        if (beats(value, best[static_cast<size_t>(i)])) {
          best[static_cast<size_t>(i)] = value;
          out[i] = j;
        }
      }
    }
  }
}

template <bool kMax>
void evaluate_arg(EvalContext& ctx) {
  const TensorView& in = ctx.input(0);
  const int axis = arg_axis(ctx.attrs(), in.dims.rank(), 0);
  const AxisView view = axis_view(in.dims, axis);
  if (view.size == 0) throw Error(Code::SHAPE_MISMATCH, "ArgMax or ArgMin: the axis has no elements");
  Dims dims = in.dims;
  if (ctx.attrs().get_int("keepdims", 1) != 0) {
    dims[axis] = 1;
  } else {
    dims.erase(axis);
  }
  auto* out = ctx.output(0, DType::INT64, dims).as<int64_t>();
  const bool last = ctx.attrs().get_int("select_last_index", 0) != 0;
  visit_numeric(in.dtype, kMax ? "ArgMax" : "ArgMin", [&]<typename T>() {
    if (last) {
      best_indices(view, in.as<T>(), out, [](auto a, auto b) { return kMax ? a >= b : a <= b; });
    } else {
      best_indices(view, in.as<T>(), out, [](auto a, auto b) { return kMax ? a > b : a < b; });
    }
  });
}

void infer_hardmax(InferContext& ctx) {
  expect_compute_float(ctx, "Hardmax", 0);
  if (ctx.shape(0).ranked()) arg_axis(ctx.attrs(), ctx.shape(0).rank(), -1);
  infer_like_input(ctx);
}

void evaluate_hardmax(EvalContext& ctx) {
  const TensorView& in = ctx.input(0);
  const AxisView view = axis_view(in.dims, arg_axis(ctx.attrs(), in.dims.rank(), -1));
  const TensorView out = ctx.output(0, in.dtype, in.dims);
  if (out.count() == 0) return;
  auto* best = static_cast<int64_t*>(ctx.scratch(static_cast<size_t>(view.outer * view.inner) * sizeof(int64_t)));
  visit_float(in.dtype, "Hardmax", [&]<typename T>() {
    best_indices(view, in.as<T>(), best, [](auto a, auto b) { return a > b; });
    T* to = out.as<T>();
    std::fill_n(to, out.count(), static_cast<T>(0.0f));
    for (int64_t o = 0; o < view.outer; ++o) {
      for (int64_t i = 0; i < view.inner; ++i) {
        to[(o * view.size + best[o * view.inner + i]) * view.inner + i] = static_cast<T>(1.0f);
      }
    }
  });
}

}  // namespace

void add_argmax_ops(OpRegistry& registry) {
  registry.add({.name = "ArgMax", .infer = infer_arg, .evaluate = evaluate_arg<true>});
  registry.add({.name = "ArgMin", .infer = infer_arg, .evaluate = evaluate_arg<false>});
  registry.add({.name = "Hardmax", .infer = infer_hardmax, .evaluate = evaluate_hardmax});
}

}  // namespace deepjit
