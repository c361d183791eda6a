// Expand and Tile: repeat a tensor along axes.
#include "ops/common.h"
#include "ops/shape/movement.h"
#include "ops/shape/strided_copy.h"

namespace deepjit {

namespace {

void check_not_negative(std::string_view op, const Dim& dim) {
  if (dim.is_const() && dim.value() < 0) {
    throw Error(Code::SHAPE_MISMATCH, std::string(op) + ": " + dim.to_string() + " must not be negative");
  }
}

// The number of elements of a 1-D input.
std::optional<int64_t> vector_length(const InferContext& ctx, int i) {
  if (const std::vector<Dim>* values = known_values(ctx, i)) return static_cast<int64_t>(values->size());
  const Shape& shape = ctx.shape(i);
  return shape.ranked() && shape.rank() == 1 ? shape[0].as_const() : std::nullopt;
}

// The output of rank 0 or 1 is the input over and over.
void set_repeated_values(InferContext& ctx, const Shape& out) {
  const std::vector<Dim>* values = known_values(ctx, 0);
  if (values == nullptr || values->empty() || !out.ranked() || out.rank() > 1) return;
  const std::optional<int64_t> count = out.count().as_const();
  if (!count || *count > kMaxTrackedValues) return;
  std::vector<Dim> repeated;
  for (int64_t j = 0; j < *count; ++j) repeated.push_back((*values)[static_cast<size_t>(j) % values->size()]);
  ctx.set_output_values(0, std::move(repeated));
}

void infer_expand(InferContext& ctx) {
  const Shape& in = ctx.shape(0);
  const std::optional<int64_t> rank = vector_length(ctx, 1);
  if (!in.ranked() || !rank) return ctx.set_output(0, ctx.dtype(0), Shape());
  Shape target;
  if (const std::vector<Dim>* values = known_values(ctx, 1)) {
    for (const Dim& d : *values) check_not_negative("Expand: shape value", d);
    target = Shape(*values);
  } else {
    target = ctx.fresh_shape(static_cast<int>(*rank));
  }
  const Shape out = broadcast_shapes(ctx, in, target);
  ctx.set_output(0, ctx.dtype(0), out);
  set_repeated_values(ctx, out);
}

void evaluate_expand(EvalContext& ctx) {
  const TensorView& in = ctx.input(0);
  const std::vector<int64_t> target = ctx.ints(1);
  for (int64_t d : target) check_not_negative("Expand: shape value", d);
  const Dims out = broadcast_dims(in.dims, Dims(std::span<const int64_t>(target)));
  const Dims from = in.dims.strides();
  Dims strides = Dims::filled(out.rank(), 0);
  const int lead = out.rank() - in.dims.rank();
  for (int i = lead; i < out.rank(); ++i) {
    if (in.dims[i - lead] != 1) strides[i] = from[i - lead];
  }
  copy_view(in, 0, strides, ctx.output(0, in.dtype, out));
}

void check_repeats(size_t count, int rank) {
  if (static_cast<int>(count) == rank) return;
  throw Error(Code::SHAPE_MISMATCH,
              "Tile: repeats has " + std::to_string(count) + " elements, the input has rank " + std::to_string(rank));
}

void infer_tile(InferContext& ctx) {
  const Shape& in = ctx.shape(0);
  const std::optional<int64_t> rank = vector_length(ctx, 1);
  if (!in.ranked() && !rank) return ctx.set_output(0, ctx.dtype(0), Shape());
  const std::vector<Dim>* repeats = known_values(ctx, 1);
  if (in.ranked() && rank) check_repeats(static_cast<size_t>(*rank), in.rank());
  if (!in.ranked() || repeats == nullptr) {
    return ctx.set_output(0, ctx.dtype(0), ctx.fresh_shape(in.ranked() ? in.rank() : static_cast<int>(*rank)));
  }
  Shape out = in;
  for (int i = 0; i < in.rank(); ++i) {
    check_not_negative("Tile: repeat", (*repeats)[static_cast<size_t>(i)]);
    out[i] = in[i] * (*repeats)[static_cast<size_t>(i)];
  }
  ctx.set_output(0, ctx.dtype(0), out);
  set_repeated_values(ctx, out);
}

void evaluate_tile(EvalContext& ctx) {
  const TensorView& in = ctx.input(0);
  const std::vector<int64_t> repeats = ctx.ints(1);
  check_repeats(repeats.size(), in.dims.rank());
  Dims dims = in.dims;
  for (int i = 0; i < dims.rank(); ++i) {
    check_not_negative("Tile: repeat", repeats[static_cast<size_t>(i)]);
    dims[i] = checked_mul(dims[i], repeats[static_cast<size_t>(i)]);
  }
  const TensorView out = ctx.output(0, in.dtype, dims);
  if (out.count() == 0) return;
  const Dims from = in.dims.strides();
  const Dims to = dims.strides();
  CopyLoops loops;
  for (int i = 0; i < dims.rank(); ++i) {
    loops.push_back({repeats[static_cast<size_t>(i)], 0, to[i] * in.dims[i]});
    loops.push_back({in.dims[i], from[i], to[i]});
  }
  visit_movable(in.dtype, [&]<typename T>() { copy_strided<T>(loops, in.as<T>(), out.as<T>()); });
}

}  // namespace

void add_expand_ops(OpRegistry& registry) {
  registry.add({.name = "Expand",
                .min_inputs = 2,
                .max_inputs = 2,
                .infer = infer_expand,
                .evaluate = evaluate_expand,
                .shape_inputs = {1}});
  registry.add({.name = "Tile",
                .min_inputs = 2,
                .max_inputs = 2,
                .infer = infer_tile,
                .evaluate = evaluate_tile,
                .shape_inputs = {1}});
}

}  // namespace deepjit
