// Resize: every mode is separable, so it runs axis by axis with the weights of resize_plan.
#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/linear/compute_buffer.h"
#include "ops/signal/image.h"
#include "ops/signal/resize_plan.h"

namespace deepjit {

namespace {

bool has_elements(const EvalContext& ctx, int i) { return ctx.has_input(i) && ctx.dims(i).count() > 0; }

std::vector<ResizeAxis> plan_of(EvalContext& ctx, const ResizeOptions& options) {
  const std::vector<int64_t> in(ctx.dims(0).begin(), ctx.dims(0).end());
  std::vector<ResizeAxis> plan;
  if (has_elements(ctx, 2)) {
    const std::vector<double> scales = to_f64(ctx.input(2));
    plan = plan_from_scales(options, in, std::vector<float>(scales.begin(), scales.end()));
  } else if (ctx.has_input(3)) {
    plan = plan_from_sizes(options, in, ctx.ints(3));
  } else {
    throw Error(Code::ARITY, "Resize needs scales or sizes");
  }
  if (options.transform != "tf_crop_and_resize") return plan;
  const std::vector<double> roi = has_elements(ctx, 1) ? to_f64(ctx.input(1)) : std::vector<double>();
  if (roi.size() != 2 * plan.size()) {
    throw Error(Code::SHAPE_MISMATCH,
                "Resize: tf_crop_and_resize needs a roi of " + std::to_string(2 * plan.size()) + " numbers");
  }
  for (size_t i = 0; i < plan.size(); ++i) {
    plan[i].roi_start = roi[i];
    plan[i].roi_end = roi[plan.size() + i];
  }
  return plan;
}

bool is_identity(const ResizeAxis& a) { return a.in == a.out && a.scale == 1 && a.roi_start == 0 && a.roi_end == 1; }

// [outer, in, inner] -> [outer, out, inner].
template <typename C>
void mix_axis(const ResizeWeights& w, const C* x, C* y, int64_t outer, int64_t in, int64_t out, int64_t inner) {
  for (int64_t n = 0; n < outer; ++n, x += in * inner) {
    for (int64_t i = 0; i < out; ++i, y += inner) {
      const int64_t* index = w.index.data() + i * w.taps;
      const double* weight = w.weight.data() + i * w.taps;
      for (int64_t k = 0; k < inner; ++k) y[k] = static_cast<C>(weight[0]) * x[index[0] * inner + k];
      for (int64_t tap = 1; tap < w.taps; ++tap) {
        const C factor = static_cast<C>(weight[tap]);
        if (factor == C(0)) continue;
        const C* row = x + index[tap] * inner;
        for (int64_t k = 0; k < inner; ++k) y[k] += factor * row[k];
      }
    }
  }
}

template <typename T>
void pick_axis(const ResizeWeights& w, const T* x, T* y, int64_t outer, int64_t in, int64_t out, int64_t inner) {
  for (int64_t n = 0; n < outer; ++n, x += in * inner) {
    for (int64_t i = 0; i < out; ++i, y += inner) std::copy_n(x + w.index[static_cast<size_t>(i)] * inner, inner, y);
  }
}

// Runs `apply(weights, from, to, outer, in, out, inner)` for every axis that changes, through scratch memory.
// The result lands in `result`.
template <typename T, typename F>
void run_axes(EvalContext& ctx, const std::vector<ResizeAxis>& plan, const std::vector<ResizeWeights>& weights,
              const T* x, T* result, F apply) {
  Dims dims = ctx.dims(0);
  std::vector<size_t> steps;
  for (size_t i = 0; i < plan.size(); ++i) {
    if (!is_identity(plan[i])) steps.push_back(i);
  }
  if (steps.empty()) std::copy_n(x, dims.count(), result);
  const T* from = x;
  for (size_t s = 0; s < steps.size(); ++s) {
    const ResizeAxis& a = plan[steps[s]];
    int64_t outer = 1, inner = 1;
    for (int d = 0; d < a.axis; ++d) outer *= dims[d];
    for (int d = a.axis + 1; d < dims.rank(); ++d) inner *= dims[d];
    dims[a.axis] = a.out;
    T* to = s + 1 == steps.size() ? result : scratch_array<T>(ctx, dims.count());
    apply(weights[steps[s]], from, to, outer, a.in, a.out, inner);
    from = to;
  }
}

// Overwrites every element whose coordinate left the input along some axis.
template <typename T>
void extrapolate(const std::vector<ResizeAxis>& plan, const std::vector<ResizeWeights>& weights, const Dims& result,
                 T value, T* y) {
  const Dims strides = result.strides();
  for (size_t k = 0; k < plan.size(); ++k) {
    const std::vector<char>& outside = weights[k].outside;
    if (std::find(outside.begin(), outside.end(), 1) == outside.end()) continue;
    const int64_t stride = strides[plan[k].axis], length = plan[k].out;
    for (int64_t i = 0; i < result.count(); ++i) {
      if (outside[static_cast<size_t>(i / stride % length)]) y[i] = value;
    }
  }
}

// Made after the output, whose size is limited: there are some for each place along an axis.
std::vector<ResizeWeights> weights_of(const ResizeOptions& options, const std::vector<ResizeAxis>& plan) {
  std::vector<ResizeWeights> weights;
  for (const ResizeAxis& a : plan) {
    weights.push_back(is_identity(a) ? ResizeWeights() : resize_weights(options, a));
  }
  return weights;
}

// The type that a linear or cubic resize of integers computes in, rounded and saturated at the end.
template <typename T>
void resize_integers(EvalContext& ctx, const ResizeOptions& options, const std::vector<ResizeAxis>& plan,
                     const Dims& result, double outside) {
  const int64_t n = ctx.dims(0).count(), m = result.count();
  T* out = ctx.output(0, ctx.dtype(0), result).as<T>();
  const std::vector<ResizeWeights> weights = weights_of(options, plan);
  double* x = scratch_array<double>(ctx, n);
  double* y = scratch_array<double>(ctx, m);
  for (int64_t i = 0; i < n; ++i) x[i] = static_cast<double>(ctx.data<const T>(0)[i]);
  run_axes(ctx, plan, weights, x, y, mix_axis<double>);
  extrapolate(plan, weights, result, outside, y);
  constexpr double kLow = static_cast<double>(std::numeric_limits<T>::lowest());
  constexpr double kHigh = static_cast<double>(std::numeric_limits<T>::max());
  for (int64_t i = 0; i < m; ++i) {
    const double value = std::nearbyint(y[i]);
    out[i] = value <= kLow    ? std::numeric_limits<T>::lowest()
             : value >= kHigh ? std::numeric_limits<T>::max()
                              : static_cast<T>(value);
  }
}

// An element of any type as raw storage.
template <typename S>
S storage_of(DType dtype, double value) {
  S bits{};
  if (dtype == DType::BOOL) return static_cast<S>(value != 0);
  visit_numeric(dtype, "Resize", [&]<typename T>() {
    if constexpr (sizeof(T) == sizeof(S)) {
      const T element = static_cast<T>(static_cast<compute_t<T>>(value));
      std::memcpy(&bits, &element, sizeof(S));
    }
  });
  return bits;
}

void evaluate_resize(EvalContext& ctx) {
  const ResizeOptions options = resize_options(ctx.attrs());
  const std::vector<ResizeAxis> plan = plan_of(ctx, options);
  const DType dtype = ctx.dtype(0);
  Dims result = ctx.dims(0);
  for (const ResizeAxis& a : plan) {
    if (a.in == 0 && a.out > 0) throw Error(Code::SHAPE_MISMATCH, "Resize: an empty axis cannot grow");
    result[a.axis] = a.out;
  }
  if (result.count() == 0) {  // the other axes may be of any length
    ctx.output(0, dtype, result);
    return;
  }
  const double outside = ctx.attrs().get_float("extrapolation_value", 0);
  if (options.mode == ResizeMode::NEAREST) {
    return visit_storage(dtype, [&]<typename S>() {
      S* y = ctx.output(0, dtype, result).as<S>();
      const std::vector<ResizeWeights> weights = weights_of(options, plan);
      run_axes(ctx, plan, weights, ctx.data<const S>(0), y, pick_axis<S>);
      if (options.transform == "tf_crop_and_resize") {
        extrapolate(plan, weights, result, storage_of<S>(dtype, outside), y);
      }
    });
  }
  if (is_integer(dtype)) {
    return visit_integer(dtype, "Resize",
                         [&]<typename T>() { resize_integers<T>(ctx, options, plan, result, outside); });
  }
  visit_compute(dtype, "Resize", [&]<typename C>() {
    ComputeOutput<C> out(ctx, 0, dtype, result);
    const std::vector<ResizeWeights> weights = weights_of(options, plan);
    run_axes(ctx, plan, weights, read_compute<C>(ctx, 0), out.data(), mix_axis<C>);
    extrapolate(plan, weights, result, static_cast<C>(outside), out.data());
    out.finish();
  });
}

// floor(dim * scale) as an expression where the scale is a fraction with a power of two below.
Dim scaled_dim(InferContext& ctx, const Dim& dim, float scale) {
  if (dim.is_const()) return Dim(scaled_length(dim.value(), scale));
  for (int64_t below = 1; below <= 64; below *= 2) {
    const float above = scale * static_cast<float>(below);
    if (above == std::floor(above) && above >= 1 && above < 1e6f) {
      return floordiv(dim * Dim(static_cast<int64_t>(above)), Dim(below));
    }
  }
  scaled_length(1, scale);  // throws for a scale that is not positive
  return ctx.fresh_dim();
}

void infer_from_sizes(InferContext& ctx, const ResizeOptions& options, const std::vector<Dim>& sizes, Shape& y) {
  const std::vector<int> axes = resize_axes(options, y.rank());
  if (sizes.size() != axes.size()) {
    throw Error(Code::SHAPE_MISMATCH,
                "Resize: " + std::to_string(sizes.size()) + " sizes for " + std::to_string(axes.size()) + " axes");
  }
  bool known = true;
  std::vector<int64_t> in(static_cast<size_t>(y.rank()), 0), wanted;
  for (size_t i = 0; i < axes.size(); ++i) {
    const Dim& dim = y[axes[i]];
    known = known && dim.is_const() && sizes[i].is_const();
    if (!known) break;
    in[static_cast<size_t>(axes[i])] = dim.value();
    wanted.push_back(sizes[i].value());
  }
  const std::vector<ResizeAxis> plan = known ? plan_from_sizes(options, in, wanted) : std::vector<ResizeAxis>();
  for (size_t i = 0; i < axes.size(); ++i) {
    y[axes[i]] = known ? Dim(plan[i].out) : options.policy == "stretch" ? sizes[i] : ctx.fresh_dim();
  }
}

void infer_resize(InferContext& ctx) {
  const ResizeOptions options = resize_options(ctx.attrs());
  const Shape& x = ctx.shape(0);
  auto empty = [&](int i) {
    return !ctx.has_input(i) || (ctx.shape(i).ranked() && ctx.shape(i).rank() == 1 && ctx.shape(i)[0] == 0);
  };
  if (empty(2) && empty(3)) throw Error(Code::ARITY, "Resize needs scales or sizes");
  if (!empty(2) && !empty(3)) throw Error(Code::ARITY, "Resize takes scales or sizes, not both");
  if (!x.ranked()) return ctx.set_output(0, ctx.dtype(0), Shape());
  Shape y = x;
  const std::vector<int> axes = resize_axes(options, x.rank());
  const Tensor* scales = empty(2) ? nullptr : ctx.input_data(2);
  const std::vector<Dim>* sizes = empty(3) ? nullptr : ctx.input_values(3);
  if (scales != nullptr) {
    const std::vector<double> values = scales->to_f64();
    if (values.size() != axes.size()) {
      throw Error(Code::SHAPE_MISMATCH,
                  "Resize: " + std::to_string(values.size()) + " scales for " + std::to_string(axes.size()) + " axes");
    }
    for (size_t i = 0; i < axes.size(); ++i) y[axes[i]] = scaled_dim(ctx, x[axes[i]], static_cast<float>(values[i]));
  } else if (sizes != nullptr) {
    infer_from_sizes(ctx, options, *sizes, y);
  } else {
    for (int axis : axes) y[axis] = ctx.fresh_dim();
  }
  ctx.set_output(0, ctx.dtype(0), y);
}

}  // namespace

void add_resize_op(OpRegistry& registry) {
  registry.add(
      {.name = "Resize", .max_inputs = 4, .infer = infer_resize, .evaluate = evaluate_resize, .shape_inputs = {2, 3}});
}

}  // namespace deepjit
