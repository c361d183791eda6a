// Slice: start:end:step along some axes, with ONNX's clamping.
#include <algorithm>
#include <limits>

#include "ops/common.h"
#include "ops/shape/movement.h"
#include "ops/shape/strided_copy.h"

namespace deepjit {

SliceRange resolve_slice(int64_t dim, int64_t start, int64_t end, int64_t step) {
  if (step == 0) throw Error(Code::RUN_VALUE, "Slice: a step is 0", "steps must be positive or negative");
  if (dim == 0) return {0, step, 0};
  const int64_t s = start < 0 ? start + dim : start;
  const int64_t e = end < 0 ? end + dim : end;
  if (step > 0) {
    const int64_t first = std::clamp<int64_t>(s, 0, dim);
    const int64_t last = std::clamp<int64_t>(e, 0, dim);
    return {first, step, last > first ? (last - first - 1) / step + 1 : 0};
  }
  const int64_t stride = -std::max(step, -std::numeric_limits<int64_t>::max());
  const int64_t first = std::clamp<int64_t>(s, 0, dim - 1);
  const int64_t last = std::clamp<int64_t>(e, -1, dim - 1);
  return {first, -stride, first > last ? (first - last - 1) / stride + 1 : 0};
}

namespace {

// Exporters write "to the end" as any huge number; tf2onnx as this one.
constexpr int64_t kHuge = 1'000'000'000;

Dim at_least_zero(const Dim& d) { return max(d, Dim(0)); }

// Both bounds with a positive step, constants or expressions that are known to be >= 0.
std::optional<Dim> forward_extent(const Dim& dim, const Dim& start, const Dim& end) {
  const bool start_negative = start.is_const() && start.value() < 0;
  const bool end_negative = end.is_const() && end.value() < 0;
  if (!start_negative && !known_nonnegative(start)) return std::nullopt;
  if (!end_negative && !known_nonnegative(end)) return std::nullopt;
  const bool from_zero = start == 0 || (start_negative && start.value() <= -kHuge);
  const bool to_end = (end.is_const() && end.value() >= kHuge) || end == dim;
  if (end_negative && end.value() <= -kHuge) return Dim(0);
  if (start.is_const() && start.value() >= kHuge) return Dim(0);
  const Dim last = to_end ? dim : end_negative ? at_least_zero(dim + end) : min(end, dim);
  if (from_zero) return last;
  if (start_negative) {
    if (to_end) return min(Dim(0) - start, dim);
    if (end_negative) return end.value() <= start.value() ? Dim(0) : min(end - start, last);
    return at_least_zero(last - at_least_zero(dim + start));
  }
  // A start past the dimension makes last - start negative, so clamping it first changes nothing.
  if (to_end) return at_least_zero(dim - start);
  if (end_negative) return at_least_zero(dim + end - start);
  if (start.is_const() && end.is_const()) {
    return end.value() <= start.value() ? Dim(0) : at_least_zero(min(end, dim) - start);
  }
  return at_least_zero(last - min(start, dim));
}

// Both bounds with a negative step, constants only.
std::optional<Dim> backward_extent(const Dim& dim, const Dim& start, const Dim& end) {
  if (!start.is_const() || !end.is_const()) return std::nullopt;
  const int64_t s = start.value();
  const int64_t e = end.value();
  const Dim top = dim - 1;
  Dim first = top;
  if (s < -1) first = s <= -kHuge ? min(Dim(0), top) : min(at_least_zero(dim + s), top);
  if (s >= 0 && s < kHuge) first = min(Dim(s), top);
  Dim last(-1);
  if (e >= kHuge) last = top;
  if (e >= 0 && e < kHuge) last = min(Dim(e), top);
  if (e < 0 && e > -kHuge) last = max(dim + e, Dim(-1));
  return at_least_zero(first - last);
}

}  // namespace

std::optional<Dim> slice_length(const Dim& dim, const Dim& start, const Dim& end, int64_t step) {
  if (dim.is_const() && start.is_const() && end.is_const()) {
    return Dim(resolve_slice(dim.value(), start.value(), end.value(), step).length);
  }
  if (step == 0) throw Error(Code::RUN_VALUE, "Slice: a step is 0", "steps must be positive or negative");
  const std::optional<Dim> extent = step > 0 ? forward_extent(dim, start, end) : backward_extent(dim, start, end);
  if (!extent) return std::nullopt;
  if (step == 1 || step == -1) return extent;
  if (step >= kHuge || step <= -kHuge) return min(*extent, Dim(1));
  return ceildiv(*extent, Dim(step > 0 ? step : -step));
}

namespace {

void check_length(const std::vector<Dim>* values, size_t count, const char* name) {
  if (values == nullptr || values->size() == count) return;
  throw Error(Code::SHAPE_MISMATCH, "Slice: " + std::string(name) + " has " + std::to_string(values->size()) +
                                        " elements, expected " + std::to_string(count));
}

// The number of sliced axes, from whichever input tells it.
std::optional<int64_t> count_axes(InferContext& ctx) {
  for (int i = 1; i <= 4; ++i) {
    if (const std::vector<Dim>* values = known_values(ctx, i)) return static_cast<int64_t>(values->size());
    if (ctx.has_input(i) && ctx.shape(i).ranked() && ctx.shape(i).rank() == 1 && ctx.shape(i)[0].is_const()) {
      return ctx.shape(i)[0].value();
    }
  }
  return std::nullopt;
}

void propagate_slice_values(InferContext& ctx) {
  const std::vector<Dim>* data = known_values(ctx, 0);
  const auto starts = ctx.constant_ints(1);
  const auto ends = ctx.constant_ints(2);
  const auto steps = ctx.has_input(4) ? ctx.constant_ints(4) : std::vector<int64_t>{1};
  if (data == nullptr || ctx.shape(0).rank() != 1 || !starts || !ends || !steps) return;
  if (starts->size() != 1 || ends->size() != 1 || steps->size() != 1) return;
  const SliceRange range =
      resolve_slice(static_cast<int64_t>(data->size()), starts->front(), ends->front(), steps->front());
  std::vector<Dim> out;
  for (int64_t i = 0; i < range.length; ++i) out.push_back((*data)[static_cast<size_t>(range.start + i * range.step)]);
  ctx.set_output_values(0, std::move(out));
}

void infer_slice(InferContext& ctx) {
  const Shape& in = ctx.shape(0);
  if (!in.ranked()) return ctx.set_output(0, ctx.dtype(0), Shape());
  const std::optional<int64_t> count = count_axes(ctx);
  const auto axes = ctx.constant_ints(3);
  if (!count || (ctx.has_input(3) && !axes)) return ctx.set_output(0, ctx.dtype(0), ctx.fresh_shape(in.rank()));
  const std::vector<Dim>* starts = known_values(ctx, 1);
  const std::vector<Dim>* ends = known_values(ctx, 2);
  const std::vector<Dim>* steps = known_values(ctx, 4);
  const auto n = static_cast<size_t>(*count);
  check_length(starts, n, "starts");
  check_length(ends, n, "ends");
  check_length(steps, n, "steps");
  if (axes && axes->size() != n) throw Error(Code::SHAPE_MISMATCH, "Slice: starts and axes differ in length");
  Shape out = in;
  for (size_t i = 0; i < n; ++i) {
    const int axis = normalize_axis(axes ? (*axes)[i] : static_cast<int64_t>(i), in.rank(), "Slice: axis");
    std::optional<int64_t> step = ctx.has_input(4) ? std::nullopt : std::optional<int64_t>(1);
    if (steps != nullptr) step = (*steps)[i].as_const();
    std::optional<Dim> length;
    if (starts != nullptr && ends != nullptr && step) {
      length = slice_length(in[axis], (*starts)[i], (*ends)[i], *step);
    }
    out[axis] = length ? *length : ctx.fresh_dim();
  }
  ctx.set_output(0, ctx.dtype(0), std::move(out));
  if (in.rank() == 1) propagate_slice_values(ctx);
}

void evaluate_slice(EvalContext& ctx) {
  const TensorView& in = ctx.input(0);
  const std::vector<int64_t> starts = ctx.ints(1);
  const std::vector<int64_t> ends = ctx.ints(2);
  const size_t n = starts.size();
  const std::vector<int64_t> axes = ctx.has_input(3) ? ctx.ints(3) : std::vector<int64_t>();
  const std::vector<int64_t> steps = ctx.has_input(4) ? ctx.ints(4) : std::vector<int64_t>(n, 1);
  if (ends.size() != n || steps.size() != n || (ctx.has_input(3) && axes.size() != n)) {
    throw Error(Code::SHAPE_MISMATCH, "Slice: starts, ends, axes and steps differ in length");
  }
  Dims dims = in.dims;
  Dims strides = in.dims.strides();
  int64_t offset = 0;
  uint32_t seen = 0;
  for (size_t i = 0; i < n; ++i) {
    const int axis = normalize_axis(axes.empty() ? static_cast<int64_t>(i) : axes[i], dims.rank(), "Slice: axis");
    if ((seen >> axis) & 1u) throw Error(Code::RUN_VALUE, "Slice: axis " + std::to_string(axis) + " is given twice");
    seen |= 1u << axis;
    const SliceRange range = resolve_slice(in.dims[axis], starts[i], ends[i], steps[i]);
    dims[axis] = range.length;
    if (range.length == 0) continue;
    offset += range.start * strides[axis];
    strides[axis] = range.length == 1 ? 0 : strides[axis] * range.step;
  }
  copy_view(in, offset, strides, ctx.output(0, in.dtype, dims));
}

}  // namespace

void add_slice_ops(OpRegistry& registry) {
  registry.add({.name = "Slice",
                .min_inputs = 3,
                .max_inputs = 5,
                .infer = infer_slice,
                .evaluate = evaluate_slice,
                .shape_inputs = {1, 2, 3, 4}});
}

}  // namespace deepjit
