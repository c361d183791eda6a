// Ops that reorder the elements of one tensor: Transpose, SpaceToDepth, DepthToSpace, ReverseSequence, Trilu.
#include <algorithm>

#include "ops/common.h"
#include "ops/scalar.h"
#include "ops/shape/movement.h"
#include "ops/shape/strided_copy.h"

namespace deepjit {

namespace {

// The permutation; the default reverses the axes.
std::vector<int> permutation(const Attributes& attrs, int rank) {
  std::vector<int> perm;
  if (!attrs.has("perm")) {
    for (int i = rank - 1; i >= 0; --i) perm.push_back(i);
    return perm;
  }
  const std::vector<int64_t> given = attrs.get_ints("perm");
  std::vector<bool> seen(static_cast<size_t>(rank), false);
  for (int64_t p : given) {
    // Unlike an axis, an entry does not count from the end.
    if (p < 0) throw Error(Code::ATTRIBUTE, "Transpose: perm has the entry " + std::to_string(p));
    const int axis = normalize_axis(p, rank, "Transpose: perm");
    if (seen[static_cast<size_t>(axis)]) throw Error(Code::ATTRIBUTE, "Transpose: perm names an axis twice");
    seen[static_cast<size_t>(axis)] = true;
    perm.push_back(axis);
  }
  if (static_cast<int>(given.size()) != rank) {
    throw Error(Code::ATTRIBUTE, "Transpose: perm has " + std::to_string(given.size()) + " axes, the input has rank " +
                                     std::to_string(rank));
  }
  return perm;
}

void infer_transpose(InferContext& ctx) {
  const Shape& in = ctx.shape(0);
  if (!in.ranked()) {
    if (!ctx.attrs().has("perm")) return ctx.set_output(0, ctx.dtype(0), Shape());
    const int rank = static_cast<int>(ctx.attrs().get_ints("perm").size());
    permutation(ctx.attrs(), rank);
    return ctx.set_output(0, ctx.dtype(0), ctx.fresh_shape(rank));
  }
  std::vector<Dim> out;
  for (int axis : permutation(ctx.attrs(), in.rank())) out.push_back(in[axis]);
  ctx.set_output(0, ctx.dtype(0), Shape(std::move(out)));
  if (in.rank() <= 1) forward_values(ctx, 0);
}

void evaluate_transpose(EvalContext& ctx) {
  const TensorView& in = ctx.input(0);
  const Dims from = in.dims.strides();
  Dims dims;
  Dims strides;
  for (int axis : permutation(ctx.attrs(), in.dims.rank())) {
    dims.push_back(in.dims[axis]);
    strides.push_back(from[axis]);
  }
  copy_view(in, 0, strides, ctx.output(0, in.dtype, dims));
}

int64_t block_size(const Attributes& attrs) {
  const int64_t size = attrs.require_int("blocksize");
  if (size < 1) throw Error(Code::ATTRIBUTE, "blocksize " + std::to_string(size) + " must be positive");
  return size;
}

void expect_rank4(std::string_view op, int rank) {
  if (rank != 4) throw Error(Code::SHAPE_MISMATCH, std::string(op) + ": expected rank 4, got " + std::to_string(rank));
}

Dim divided(std::string_view op, const Dim& dim, int64_t by) {
  if (dim.is_const() && dim.value() % by != 0) {
    throw Error(Code::SHAPE_MISMATCH,
                std::string(op) + ": dimension " + dim.to_string() + " is not a multiple of " + std::to_string(by));
  }
  return floordiv(dim, Dim(by));
}

std::vector<Dim> space_to_depth_dims(const Shape& in, int64_t b) {
  return {in[0], in[1] * Dim(checked_mul(b, b)), divided("SpaceToDepth", in[2], b), divided("SpaceToDepth", in[3], b)};
}

std::vector<Dim> depth_to_space_dims(const Shape& in, int64_t b) {
  return {in[0], divided("DepthToSpace", in[1], checked_mul(b, b)), in[2] * Dim(b), in[3] * Dim(b)};
}

template <std::vector<Dim> (*Rule)(const Shape&, int64_t)>
void infer_blocks(InferContext& ctx) {
  const Shape& in = ctx.shape(0);
  const int64_t b = block_size(ctx.attrs());
  if (!in.ranked()) return ctx.set_output(0, ctx.dtype(0), ctx.fresh_shape(4));
  expect_rank4("SpaceToDepth or DepthToSpace", in.rank());
  ctx.set_output(0, ctx.dtype(0), Shape(Rule(in, b)));
}

void evaluate_space_to_depth(EvalContext& ctx) {
  const TensorView& in = ctx.input(0);
  const int64_t b = block_size(ctx.attrs());
  const Dims out = *Shape(space_to_depth_dims(Shape(in.dims), b)).as_const();
  const TensorView to = ctx.output(0, in.dtype, out);
  // n, row in block, column in block, channel, row, column
  const int64_t w = in.dims[3];
  const Dims strides = {in.dims[1] * in.dims[2] * w, w, 1, in.dims[2] * w, b * w, b};
  copy_view(in, 0, strides, {to.dtype, {out[0], b, b, in.dims[1], out[2], out[3]}, to.data});
}

void evaluate_depth_to_space(EvalContext& ctx) {
  const TensorView& in = ctx.input(0);
  const int64_t b = block_size(ctx.attrs());
  const std::string mode = ctx.attrs().get_string("mode", "DCR");
  if (mode != "DCR" && mode != "CRD") throw Error(Code::ATTRIBUTE, "DepthToSpace: mode \"" + mode + "\" is unknown");
  const Dims out = *Shape(depth_to_space_dims(Shape(in.dims), b)).as_const();
  const TensorView to = ctx.output(0, in.dtype, out);
  const int64_t plane = in.dims[2] * in.dims[3];
  const int64_t channels = out[1];
  const bool depth_first = mode == "DCR";
  const int64_t channel = depth_first ? plane : b * b * plane;
  const int64_t block_row = depth_first ? b * channels * plane : b * plane;
  const int64_t block_column = depth_first ? channels * plane : plane;
  // n, channel, row, row in block, column, column in block
  const Dims strides = {in.dims[1] * plane, channel, in.dims[3], block_row, 1, block_column};
  copy_view(in, 0, strides, {to.dtype, {out[0], channels, in.dims[2], b, in.dims[3], b}, to.data});
}

void evaluate_reverse_sequence(EvalContext& ctx) {
  const TensorView& in = ctx.input(0);
  const int64_t time_axis = ctx.attrs().get_int("time_axis", 0);
  const int64_t batch_axis = ctx.attrs().get_int("batch_axis", 1);
  if (time_axis + batch_axis != 1 || time_axis < 0 || time_axis > 1) {
    throw Error(Code::ATTRIBUTE, "ReverseSequence: time_axis and batch_axis must be 0 and 1 in some order");
  }
  if (in.dims.rank() < 2) throw Error(Code::SHAPE_MISMATCH, "ReverseSequence: expected rank 2 or more");
  const int64_t steps = in.dims[static_cast<int>(time_axis)];
  const int64_t batch = in.dims[static_cast<int>(batch_axis)];
  const int64_t inner = count_range(in.dims, 2, in.dims.rank());
  const int64_t time_stride = time_axis == 0 ? batch * inner : inner;
  const int64_t batch_stride = time_axis == 0 ? inner : steps * inner;
  const std::vector<int64_t> lengths = ctx.ints(1);
  if (static_cast<int64_t>(lengths.size()) != batch) {
    throw Error(Code::SHAPE_MISMATCH, "ReverseSequence: sequence_lens has " + std::to_string(lengths.size()) +
                                          " elements for a batch of " + std::to_string(batch));
  }
  const TensorView out = ctx.output(0, in.dtype, in.dims);
  visit_movable(in.dtype, [&]<typename T>() {
    for (int64_t b = 0; b < batch; ++b) {
      const int64_t length = lengths[static_cast<size_t>(b)];
      if (length < 0 || length > steps) {
        throw Error(Code::INDEX_RANGE, "ReverseSequence: length " + std::to_string(length) + " is out of range [0, " +
                                           std::to_string(steps) + "]");
      }
      for (int64_t t = 0; t < steps; ++t) {
        const int64_t source = t < length ? length - 1 - t : t;
        copy_run(in.as<T>() + b * batch_stride + source * time_stride, out.as<T>() + b * batch_stride + t * time_stride,
                 inner);
      }
    }
  });
}

void evaluate_trilu(EvalContext& ctx) {
  const TensorView& in = ctx.input(0);
  const int rank = in.dims.rank();
  if (rank < 2) throw Error(Code::SHAPE_MISMATCH, "Trilu: expected rank 2 or more, got " + std::to_string(rank));
  const bool upper = ctx.attrs().get_int("upper", 1) != 0;
  const int64_t rows = in.dims[rank - 2];
  const int64_t columns = in.dims[rank - 1];
  const int64_t k_given = ctx.has_input(1) ? first_of(ctx.ints(1), "Trilu: k") : 0;
  const int64_t k = std::clamp(k_given, -rows - 1, columns + 1);
  const int64_t matrices = count_range(in.dims, 0, rank - 2);
  const TensorView out = ctx.output(0, in.dtype, in.dims);
  visit_movable(in.dtype, [&]<typename T>() {
    for (int64_t row = 0; row < matrices * rows; ++row) {
      const int64_t i = row % rows;
      // The kept columns: from the diagonal on, or up to it.
      const int64_t edge = std::clamp<int64_t>(upper ? i + k : i + k + 1, 0, columns);
      const T* from = in.as<T>() + row * columns;
      T* to = out.as<T>() + row * columns;
      if (upper) {
        std::fill_n(to, edge, T());
        copy_run(from + edge, to + edge, columns - edge);
      } else {
        copy_run(from, to, edge);
        std::fill_n(to + edge, columns - edge, T());
      }
    }
  });
}

}  // namespace

void add_transpose_ops(OpRegistry& registry) {
  registry.add({.name = "Transpose", .infer = infer_transpose, .evaluate = evaluate_transpose});
  registry.add(
      {.name = "SpaceToDepth", .infer = infer_blocks<space_to_depth_dims>, .evaluate = evaluate_space_to_depth});
  registry.add(
      {.name = "DepthToSpace", .infer = infer_blocks<depth_to_space_dims>, .evaluate = evaluate_depth_to_space});
  registry.add({.name = "ReverseSequence",
                .min_inputs = 2,
                .max_inputs = 2,
                .infer = infer_like_input,
                .evaluate = evaluate_reverse_sequence});
  registry.add({.name = "Trilu", .max_inputs = 2, .infer = infer_like_input, .evaluate = evaluate_trilu});
}

}  // namespace deepjit
