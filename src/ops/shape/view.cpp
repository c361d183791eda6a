// Ops that leave the bytes as they are, and those that only read a shape.
#include <algorithm>

#include "ops/common.h"
#include "ops/shape/movement.h"

namespace deepjit {

namespace {

// ---- Squeeze, Unsqueeze ---------------------------------------------------------------------------

// Marks the positions that `axes` name in a shape of `rank`; throws for one named twice.
std::vector<bool> mark_axes(const std::vector<int64_t>& axes, int rank, std::string_view op) {
  std::vector<bool> marked(static_cast<size_t>(rank), false);
  for (int64_t axis : axes) {
    const auto at = static_cast<size_t>(normalize_axis(axis, rank, std::string(op) + " axis"));
    if (marked[at]) {
      throw Error(Code::ATTRIBUTE, std::string(op) + ": axis " + std::to_string(axis) + " is named twice");
    }
    marked[at] = true;
  }
  return marked;
}

// How many axes input 1 names, where its shape tells; for axes whose values are not known yet.
std::optional<int64_t> count_of_axes(const InferContext& ctx) {
  if (!ctx.has_input(1) || !ctx.shape(1).ranked()) return std::nullopt;
  const Shape& axes = ctx.shape(1);
  if (axes.rank() == 0) return 1;
  if (axes.rank() > 1) throw Error(Code::SHAPE_MISMATCH, "axes have shape " + axes.to_string() + ", expected rank 1");
  return axes[0].as_const();
}

void infer_squeeze(InferContext& ctx) {
  const Shape& input = ctx.shape(0);
  const auto axes = ctx.constant_ints(1);
  if (!input.ranked() || (ctx.has_input(1) && !axes)) {
    const auto dropped = count_of_axes(ctx);
    const bool rank_known = input.ranked() && dropped && *dropped <= input.rank();
    ctx.set_output(0, ctx.dtype(0), rank_known ? ctx.fresh_shape(input.rank() - static_cast<int>(*dropped)) : Shape());
    return;
  }
  std::vector<bool> drop(static_cast<size_t>(input.rank()), false);
  if (axes) drop = mark_axes(*axes, input.rank(), "Squeeze");
  std::vector<Dim> out;
  for (int i = 0; i < input.rank(); ++i) {
    const auto at = static_cast<size_t>(i);
    if (!axes && !input[i].is_const()) {  // may or may not be 1
      ctx.set_output(0, ctx.dtype(0), Shape());
      return;
    }
    if (axes && drop[at] && input[i].is_const() && input[i].value() != 1) {
      throw Error(Code::SHAPE_MISMATCH, "Squeeze: dim " + std::to_string(i) + " of " + input.to_string() + " is not 1");
    }
    if (!axes) drop[at] = input[i] == 1;
    if (!drop[at]) out.push_back(input[i]);
  }
  ctx.set_output(0, ctx.dtype(0), Shape(std::move(out)));
  forward_values(ctx, 0);
}

void evaluate_squeeze(EvalContext& ctx) {
  const Dims& input = ctx.dims(0);
  std::vector<bool> drop(input.size(), false);
  if (ctx.has_input(1)) drop = mark_axes(ctx.ints(1), input.rank(), "Squeeze");
  Dims out;
  for (int i = 0; i < input.rank(); ++i) {
    const bool dropped = drop[static_cast<size_t>(i)];
    if (dropped && input[i] != 1) {
      throw Error(Code::SHAPE_MISMATCH, "Squeeze: dim " + std::to_string(i) + " of " + input.to_string() + " is not 1");
    }
    if (!(dropped || (!ctx.has_input(1) && input[i] == 1))) out.push_back(input[i]);
  }
  copy_elements(ctx.input(0), ctx.output(0, ctx.dtype(0), out));
}

void infer_unsqueeze(InferContext& ctx) {
  const Shape& input = ctx.shape(0);
  const auto axes = ctx.constant_ints(1);
  if (!input.ranked() || !axes) {
    const auto added = count_of_axes(ctx);
    const bool rank_known = input.ranked() && added && *added <= kMaxRank;
    return ctx.set_output(0, ctx.dtype(0),
                          rank_known ? ctx.fresh_shape(input.rank() + static_cast<int>(*added)) : Shape());
  }
  const int rank = input.rank() + static_cast<int>(axes->size());
  const std::vector<bool> added = mark_axes(*axes, rank, "Unsqueeze");
  std::vector<Dim> out;
  int next = 0;
  for (int i = 0; i < rank; ++i) out.push_back(added[static_cast<size_t>(i)] ? Dim(1) : input[next++]);
  ctx.set_output(0, ctx.dtype(0), Shape(std::move(out)));
  if (rank <= 1) forward_values(ctx, 0);
}

void evaluate_unsqueeze(EvalContext& ctx) {
  const std::vector<int64_t> axes = ctx.ints(1);
  const int rank = ctx.dims(0).rank() + static_cast<int>(axes.size());
  const std::vector<bool> added = mark_axes(axes, rank, "Unsqueeze");
  Dims out;
  int next = 0;
  for (int i = 0; i < rank; ++i) out.push_back(added[static_cast<size_t>(i)] ? 1 : ctx.dims(0)[next++]);
  copy_elements(ctx.input(0), ctx.output(0, ctx.dtype(0), out));
}

// ---- Flatten, Identity ----------------------------------------------------------------------------

int flatten_axis(const Attributes& attrs, int rank) {
  const int64_t axis = attrs.get_int("axis", 1);
  if (axis < -rank || axis > rank) {
    throw Error(Code::ATTRIBUTE,
                "Flatten: axis " + std::to_string(axis) + " is out of range for rank " + std::to_string(rank));
  }
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

void infer_flatten(InferContext& ctx) {
  const Shape& input = ctx.shape(0);
  if (!input.ranked()) return ctx.set_output(0, ctx.dtype(0), ctx.fresh_shape(2));
  const int axis = flatten_axis(ctx.attrs(), input.rank());
  Dim rows(1);
  Dim columns(1);
  for (int i = 0; i < input.rank(); ++i) (i < axis ? rows : columns) = (i < axis ? rows : columns) * input[i];
  ctx.set_output(0, ctx.dtype(0), Shape({rows, columns}));
}

void evaluate_flatten(EvalContext& ctx) {
  const Dims& input = ctx.dims(0);
  const int axis = flatten_axis(ctx.attrs(), input.rank());
  Dims out{1, 1};
  for (int i = 0; i < input.rank(); ++i) out[i < axis ? 0 : 1] *= input[i];
  copy_elements(ctx.input(0), ctx.output(0, ctx.dtype(0), out));
}

void infer_identity(InferContext& ctx) {
  infer_like_input(ctx);
  forward_values(ctx, 0);
}

void evaluate_identity(EvalContext& ctx) { copy_elements(ctx.input(0), ctx.output(0, ctx.dtype(0), ctx.dims(0))); }

// ---- Shape, Size ----------------------------------------------------------------------------------

// [start, end) of the dims that Shape gives.
std::pair<int, int> shape_range(const Attributes& attrs, int rank) {
  const auto clamped = [rank](int64_t i) {
    if (i < 0) i += rank;
    return static_cast<int>(std::clamp<int64_t>(i, 0, rank));
  };
  const int start = clamped(attrs.get_int("start", 0));
  const int end = clamped(attrs.get_int("end", rank));
  return {start, std::max(start, end)};
}

void infer_shape(InferContext& ctx) {
  const Shape& input = ctx.shape(0);
  if (!input.ranked()) return ctx.set_output(0, DType::INT64, ctx.fresh_shape(1));
  const auto [start, end] = shape_range(ctx.attrs(), input.rank());
  ctx.set_output(0, DType::INT64, Shape({Dim(end - start)}));
  ctx.set_output_values(0, {input.dims().begin() + start, input.dims().begin() + end});
}

void evaluate_shape(EvalContext& ctx) {
  const auto [start, end] = shape_range(ctx.attrs(), ctx.dims(0).rank());
  const TensorView out = ctx.output(0, DType::INT64, Dims{end - start});
  for (int i = start; i < end; ++i) out.as<int64_t>()[i - start] = ctx.dims(0)[i];
}

void infer_size(InferContext& ctx) {
  ctx.set_output(0, DType::INT64, Shape(std::vector<Dim>{}));
  if (ctx.shape(0).ranked()) ctx.set_output_values(0, {ctx.shape(0).count()});
}

void evaluate_size(EvalContext& ctx) { *ctx.output(0, DType::INT64, {}).as<int64_t>() = ctx.input(0).count(); }

}  // namespace

void add_view_ops(OpRegistry& registry) {
  add_reshape_ops(registry);
  registry.add({.name = "Squeeze",
                .max_inputs = 2,
                .infer = infer_squeeze,
                .evaluate = evaluate_squeeze,
                .view = true,
                .shape_inputs = {1}});
  registry.add({.name = "Unsqueeze",
                .min_inputs = 2,
                .max_inputs = 2,
                .infer = infer_unsqueeze,
                .evaluate = evaluate_unsqueeze,
                .view = true,
                .shape_inputs = {1}});
  registry.add({.name = "Flatten", .infer = infer_flatten, .evaluate = evaluate_flatten, .view = true});
  registry.add({.name = "Identity", .infer = infer_identity, .evaluate = evaluate_identity, .view = true});
  registry.add({.name = "Shape", .infer = infer_shape, .evaluate = evaluate_shape});
  registry.add({.name = "Size", .infer = infer_size, .evaluate = evaluate_size});
}

}  // namespace deepjit
