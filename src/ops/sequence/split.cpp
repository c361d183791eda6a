// SplitToSequence and ConcatFromSequence: one tensor to a sequence of its parts along an axis, and back.
#include <algorithm>

#include "ops/common.h"
#include "ops/sequence/sequence.h"
#include "ops/shape/strided_copy.h"

namespace deepjit {

namespace {

bool drops_axis(InferContext& ctx) { return !ctx.has_input(1) && ctx.attrs().get_int("keepdims", 1) == 0; }

// How many parts there are, and the extent they share along the axis where it is known.
struct Parts {
  Dim count;
  Dim extent;
};

Parts known_parts(InferContext& ctx, const Dim& whole) {
  if (!ctx.has_input(1)) return {whole.is_const() ? whole : ctx.fresh_dim(), Dim(1)};
  const auto sizes = ctx.constant_ints(1);
  const bool scalar = ctx.shape(1).ranked() && ctx.shape(1).rank() == 0;
  if (!sizes) {
    const bool vector = ctx.shape(1).ranked() && ctx.shape(1).rank() == 1 && ctx.shape(1)[0].is_const();
    return {vector ? ctx.shape(1)[0] : ctx.fresh_dim(), ctx.fresh_dim()};
  }
  if (!scalar) {
    const bool equal = std::adjacent_find(sizes->begin(), sizes->end(), std::not_equal_to<>()) == sizes->end();
    return {Dim(static_cast<int64_t>(sizes->size())),
            equal && !sizes->empty() && sizes->front() >= 0 ? Dim(sizes->front()) : ctx.fresh_dim()};
  }
  const int64_t size = sizes->at(0);
  if (size <= 0 || !whole.is_const()) return {ctx.fresh_dim(), ctx.fresh_dim()};
  const int64_t n = whole.value();
  return {Dim(n / size + (n % size != 0 ? 1 : 0)), n % size == 0 ? Dim(size) : ctx.fresh_dim()};
}

void infer_split(InferContext& ctx) {
  if (ctx.has_input(1)) {
    expect_integer(ctx, "SplitToSequence", 1);
    if (ctx.shape(1).ranked() && ctx.shape(1).rank() > 1) {
      throw Error(Code::SHAPE_MISMATCH, "SplitToSequence: split must be a scalar or a vector");
    }
  }
  const Shape& in = ctx.shape(0);
  const int axis = in.ranked() ? normalize_axis(ctx.attrs().get_int("axis", 0), in.rank(), "SplitToSequence: axis") : 0;
  const Parts parts = known_parts(ctx, in.ranked() ? in[axis] : ctx.fresh_dim());
  TensorType element{ctx.dtype(0), in};
  if (in.ranked()) {
    std::vector<Dim> dims = in.dims();
    dims[static_cast<size_t>(axis)] = parts.extent;
    if (drops_axis(ctx)) dims.erase(dims.begin() + axis);
    element.shape = Shape(std::move(dims));
  }
  ctx.set_output(0, collection_type(DType::SEQUENCE, parts.count, std::move(element)));
}

// The extents of all parts of an axis of `whole`.
std::vector<int64_t> part_sizes(EvalContext& ctx, int64_t whole) {
  if (!ctx.has_input(1)) return std::vector<int64_t>(static_cast<size_t>(whole), 1);
  std::vector<int64_t> sizes = ctx.ints(1);
  if (ctx.dims(1).rank() == 0) {
    const int64_t size = sizes[0];
    if (size <= 0) {
      throw Error(Code::RUN_VALUE, "SplitToSequence: the size of a part must be positive, got " + std::to_string(size));
    }
    sizes.clear();
    for (int64_t start = 0; start < whole; start += std::min(size, whole - start)) {
      sizes.push_back(std::min(size, whole - start));
    }
  }
  int64_t total = 0;
  for (int64_t size : sizes) {
    if (size < 0) throw Error(Code::RUN_VALUE, "SplitToSequence: size " + std::to_string(size) + " is negative");
    total = checked_add(total, size);
  }
  if (total != whole) {
    throw Error(Code::SHAPE_MISMATCH, "SplitToSequence: the sizes add up to " + std::to_string(total) +
                                          ", the axis has " + std::to_string(whole));
  }
  return sizes;
}

void evaluate_split(EvalContext& ctx) {
  const TensorView& in = ctx.input(0);
  const int axis = normalize_axis(ctx.attrs().get_int("axis", 0), in.dims.rank(), "SplitToSequence: axis");
  const std::vector<int64_t> sizes = part_sizes(ctx, in.dims[axis]);
  const bool drop = !ctx.has_input(1) && ctx.attrs().get_int("keepdims", 1) == 0;
  Tensor* out = ctx.output(0, DType::SEQUENCE, {static_cast<int64_t>(sizes.size())}).as<Tensor>();
  const Dims strides = in.dims.strides();
  int64_t start = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    Dims dims = in.dims;
    dims[axis] = sizes[i];
    const Tensor part(in.dtype, dims);
    if (part.count() > 0) copy_view(in, start * strides[axis], strides, part.view());
    start += sizes[i];
    if (drop) dims.erase(axis);
    out[i] = part.reshaped(dims);
  }
}

bool stacks(const Attributes& attrs) { return attrs.get_int("new_axis", 0) != 0; }

void infer_concat(InferContext& ctx) {
  expect_type(ctx, "ConcatFromSequence", 0, ctx.dtype(0) == DType::SEQUENCE, "a sequence");
  const int64_t axis_attribute = ctx.attrs().require_int("axis");
  TensorType type = element_type(ctx, 0);
  if (type.shape.ranked()) {
    const bool stack = stacks(ctx.attrs());
    std::vector<Dim> dims = type.shape.dims();
    const int axis = normalize_axis(axis_attribute, type.shape.rank() + (stack ? 1 : 0), "ConcatFromSequence: axis");
    const Dim length = ctx.shape(0).ranked() ? ctx.shape(0)[0] : ctx.fresh_dim();
    const Dim known = length.is_const() ? length : ctx.fresh_dim();
    if (stack) {
      dims.insert(dims.begin() + axis, known);
    } else {
      Dim& extent = dims[static_cast<size_t>(axis)];
      extent = extent.is_const() && known.is_const() ? extent * known : ctx.fresh_dim();
    }
    type.shape = Shape(std::move(dims));
  }
  ctx.set_output(0, std::move(type));
}

// The dims of the result, with the first element's elsewhere than along the axis.
Dims concat_dims(std::span<const Tensor> parts, int axis, bool stack) {
  Dims dims = parts[0].dims();
  if (stack) {
    dims.insert(axis, static_cast<int64_t>(parts.size()));
  } else {
    dims[axis] = 0;
  }
  for (const Tensor& part : parts) {
    bool fits = part.dims().rank() == parts[0].dims().rank();
    for (int d = 0; fits && d < part.dims().rank(); ++d) {
      fits = part.dims()[d] == parts[0].dims()[d] || (!stack && d == axis);
    }
    if (!fits || part.dtype() != parts[0].dtype()) {
      throw Error(Code::SHAPE_MISMATCH, "ConcatFromSequence: an element has shape " + part.dims().to_string() +
                                            ", the first has " + parts[0].dims().to_string());
    }
    if (!stack) dims[axis] = checked_add(dims[axis], part.dims()[axis]);
  }
  return dims;
}

void evaluate_concat(EvalContext& ctx) {
  const std::span<const Tensor> parts(ctx.data<Tensor>(0), static_cast<size_t>(ctx.input(0).count()));
  if (parts.empty()) throw Error(Code::RUN_VALUE, "ConcatFromSequence: the sequence is empty");
  const bool stack = stacks(ctx.attrs());
  const int axis = normalize_axis(ctx.attrs().require_int("axis"), parts[0].dims().rank() + (stack ? 1 : 0),
                                  "ConcatFromSequence: axis");
  const Dims dims = concat_dims(parts, axis, stack);
  const TensorView out = ctx.output(0, parts[0].dtype(), dims);
  if (out.count() == 0) return;
  const int64_t outer = count_range(dims, 0, axis);
  const int64_t row = count_range(dims, axis, dims.rank());
  visit_movable(out.dtype, [&]<typename T>() {
    T* to = out.as<T>();
    for (const Tensor& part : parts) {
      const int64_t run = part.count() / outer;
      if (run == 0) continue;
      copy_strided<T>({{outer, run, row}, {run, 1, 1}}, part.as<T>(), to);
      to += run;
    }
  });
}

}  // namespace

void add_sequence_split_ops(OpRegistry& registry) {
  registry.add({.name = "SplitToSequence", .max_inputs = 2, .infer = infer_split, .evaluate = evaluate_split});
  registry.add({.name = "ConcatFromSequence", .infer = infer_concat, .evaluate = evaluate_concat});
}

}  // namespace deepjit
