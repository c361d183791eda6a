// Gather, GatherElements and GatherND: read by index. Negative indices count from the end.
#include "ops/common.h"
#include "ops/index/index.h"
#include "ops/shape/movement.h"
#include "ops/shape/strided_copy.h"

namespace deepjit {

namespace {

void propagate_gather_values(InferContext& ctx) {
  const std::vector<Dim>* data = known_values(ctx, 0);
  const auto indices = ctx.constant_ints(1);
  if (data == nullptr || !indices || ctx.shape(0).rank() != 1) return;
  if (!ctx.shape(1).ranked() || ctx.shape(1).rank() > 1) return;
  const auto size = static_cast<int64_t>(data->size());
  std::vector<Dim> out;
  for (int64_t index : *indices) {
    const int64_t at = index < 0 ? index + size : index;
    if (at < 0 || at >= size) return;  // reported when it runs, which it may never do
    out.push_back((*data)[static_cast<size_t>(at)]);
  }
  ctx.set_output_values(0, std::move(out));
}

void infer_gather(InferContext& ctx) {
  expect_integer(ctx, "Gather", 1);
  const Shape& in = ctx.shape(0);
  const Shape& indices = ctx.shape(1);
  if (!in.ranked() || !indices.ranked()) return ctx.set_output(0, ctx.dtype(0), Shape());
  const int axis = normalize_axis(ctx.attrs().get_int("axis", 0), in.rank(), "Gather: axis");
  std::vector<Dim> out(in.dims().begin(), in.dims().begin() + axis);
  out.insert(out.end(), indices.dims().begin(), indices.dims().end());
  out.insert(out.end(), in.dims().begin() + axis + 1, in.dims().end());
  ctx.set_output(0, ctx.dtype(0), Shape(std::move(out)));
  propagate_gather_values(ctx);
}

// All elements of input i as non-negative offsets along a dimension of `limit`, in scratch memory.
const int64_t* wrapped_indices(EvalContext& ctx, int i, std::string_view op, int64_t limit) {
  const TensorView& view = ctx.input(i);
  const int64_t n = view.count();
  auto* out = static_cast<int64_t*>(ctx.scratch(static_cast<size_t>(n) * sizeof(int64_t)));
  visit_integer(view.dtype, op, [&]<typename I>() {
    for (int64_t k = 0; k < n; ++k) out[k] = wrap_index(op, static_cast<int64_t>(view.as<I>()[k]), limit);
  });
  return out;
}

void evaluate_gather(EvalContext& ctx) {
  const TensorView& in = ctx.input(0);
  const int axis = normalize_axis(ctx.attrs().get_int("axis", 0), in.dims.rank(), "Gather: axis");
  Dims dims;
  for (int i = 0; i < axis; ++i) dims.push_back(in.dims[i]);
  for (int64_t d : ctx.dims(1)) dims.push_back(d);
  for (int i = axis + 1; i < in.dims.rank(); ++i) dims.push_back(in.dims[i]);
  const int64_t limit = in.dims[axis];
  const int64_t* indices = wrapped_indices(ctx, 1, "Gather", limit);
  const int64_t count = ctx.input(1).count();
  const int64_t outer = count_range(in.dims, 0, axis);
  const int64_t inner = count_range(in.dims, axis + 1, in.dims.rank());
  const TensorView out = ctx.output(0, in.dtype, dims);
  visit_movable(in.dtype, [&]<typename T>() {
    const T* from = in.as<T>();
    T* to = out.as<T>();
    for (int64_t o = 0; o < outer; ++o, from += limit * inner, to += count * inner) {
      if (inner == 1) {
        for (int64_t k = 0; k < count; ++k) to[k] = from[indices[k]];
      } else {
        for (int64_t k = 0; k < count; ++k) copy_run(from + indices[k] * inner, to + k * inner, inner);
      }
    }
  });
}

void infer_gather_elements(InferContext& ctx) {
  expect_integer(ctx, "GatherElements", 1);
  const Shape& in = ctx.shape(0);
  const Shape& indices = ctx.shape(1);
  if (in.ranked() && indices.ranked() && in.rank() != indices.rank()) {
    throw Error(Code::SHAPE_MISMATCH, "GatherElements: data has rank " + std::to_string(in.rank()) +
                                          ", indices have rank " + std::to_string(indices.rank()));
  }
  if (in.ranked()) normalize_axis(ctx.attrs().get_int("axis", 0), in.rank(), "GatherElements: axis");
  ctx.set_output(0, ctx.dtype(0), indices.ranked() || !in.ranked() ? indices : ctx.fresh_shape(in.rank()));
}

void evaluate_gather_elements(EvalContext& ctx) {
  const TensorView& in = ctx.input(0);
  const Dims& dims = ctx.dims(1);
  const int rank = dims.rank();
  const int axis = normalize_axis(ctx.attrs().get_int("axis", 0), in.dims.rank(), "GatherElements: axis");
  for (int d = 0; d < rank; ++d) {
    if (d != axis && dims[d] > in.dims[d]) {
      throw Error(Code::SHAPE_MISMATCH, "GatherElements: indices of shape " + dims.to_string() +
                                            " do not fit data of shape " + in.dims.to_string());
    }
  }
  const TensorView out = ctx.output(0, in.dtype, dims);
  if (out.count() == 0) return;
  const int64_t* index = wrapped_indices(ctx, 1, "GatherElements", in.dims[axis]);
  const Dims strides = in.dims.strides();
  const int64_t row = dims[rank - 1];
  const int64_t step = axis == rank - 1 ? 0 : 1;  // between the columns of a row, apart from the index
  visit_movable(in.dtype, [&]<typename T>() {
    Dims at = Dims::filled(rank, 0);
    T* to = out.as<T>();
    for (int64_t r = 0; r < out.count() / row; ++r, to += row, index += row) {
      const T* from = in.as<T>();
      for (int d = 0; d < rank - 1; ++d) from += d == axis ? 0 : at[d] * strides[d];
      for (int64_t j = 0; j < row; ++j) to[j] = from[index[j] * strides[axis] + j * step];
      for (int d = rank - 2; d >= 0; --d) {
        if (++at[d] < dims[d]) break;
        at[d] = 0;
      }
    }
  });
}

int batch_dims(const Attributes& attrs, int data_rank, int index_rank) {
  const int64_t b = attrs.get_int("batch_dims", 0);
  if (b < 0 || b >= std::min(data_rank, index_rank)) {
    throw Error(Code::ATTRIBUTE, "GatherND: batch_dims " + std::to_string(b) + " must be below the ranks " +
                                     std::to_string(data_rank) + " and " + std::to_string(index_rank));
  }
  return static_cast<int>(b);
}

void check_depth(int64_t depth, int data_rank, int batch) {
  if (depth >= 0 && depth <= data_rank - batch) return;
  throw Error(Code::SHAPE_MISMATCH, "GatherND: index tuples of " + std::to_string(depth) +
                                        " elements do not fit data of rank " + std::to_string(data_rank));
}

void infer_gather_nd(InferContext& ctx) {
  expect_integer(ctx, "GatherND", 1);
  const Shape& in = ctx.shape(0);
  const Shape& indices = ctx.shape(1);
  if (!in.ranked() || !indices.ranked()) return ctx.set_output(0, ctx.dtype(0), Shape());
  const int batch = batch_dims(ctx.attrs(), in.rank(), indices.rank());
  const std::optional<int64_t> depth = indices[indices.rank() - 1].as_const();
  if (!depth) return ctx.set_output(0, ctx.dtype(0), Shape());
  check_depth(*depth, in.rank(), batch);
  std::vector<Dim> out(indices.dims().begin(), indices.dims().end() - 1);
  out.insert(out.end(), in.dims().begin() + batch + *depth, in.dims().end());
  ctx.set_output(0, ctx.dtype(0), Shape(std::move(out)));
}

void evaluate_gather_nd(EvalContext& ctx) {
  const TensorView& in = ctx.input(0);
  const Dims& index_dims = ctx.dims(1);
  const int batch = batch_dims(ctx.attrs(), in.dims.rank(), index_dims.rank());
  const int64_t depth = index_dims.back();
  check_depth(depth, in.dims.rank(), batch);
  Dims dims;
  for (int i = 0; i + 1 < index_dims.rank(); ++i) dims.push_back(index_dims[i]);
  for (int i = batch + static_cast<int>(depth); i < in.dims.rank(); ++i) dims.push_back(in.dims[i]);
  for (int i = 0; i < batch; ++i) {
    if (index_dims[i] != in.dims[i]) throw Error(Code::SHAPE_MISMATCH, "GatherND: the batch dimensions differ");
  }
  const int64_t batches = count_range(in.dims, 0, batch);
  const int64_t tuples = count_range(index_dims, batch, index_dims.rank() - 1);
  const int64_t batch_stride = count_range(in.dims, batch, in.dims.rank());
  const int64_t run = count_range(in.dims, batch + static_cast<int>(depth), in.dims.rank());
  const Dims strides = in.dims.strides();
  const TensorView out = ctx.output(0, in.dtype, dims);
  if (out.count() == 0) return;
  const std::vector<int64_t> indices = ctx.ints(1);
  visit_movable(in.dtype, [&]<typename T>() {
    const int64_t* tuple = indices.data();
    T* to = out.as<T>();
    for (int64_t k = 0; k < batches * tuples; ++k, tuple += depth, to += run) {
      int64_t offset = k / tuples * batch_stride;
      for (int d = 0; d < static_cast<int>(depth); ++d) {
        offset += wrap_index("GatherND", tuple[d], in.dims[batch + d]) * strides[batch + d];
      }
      copy_run(in.as<T>() + offset, to, run);
    }
  });
}

}  // namespace

void add_gather_ops(OpRegistry& registry) {
  registry.add(
      {.name = "Gather", .min_inputs = 2, .max_inputs = 2, .infer = infer_gather, .evaluate = evaluate_gather});
  registry.add({.name = "GatherElements",
                .min_inputs = 2,
                .max_inputs = 2,
                .infer = infer_gather_elements,
                .evaluate = evaluate_gather_elements});
  registry.add(
      {.name = "GatherND", .min_inputs = 2, .max_inputs = 2, .infer = infer_gather_nd, .evaluate = evaluate_gather_nd});
}

}  // namespace deepjit
