// NonZero and Compress: how many elements come out depends on the data.
#include <algorithm>

#include "ops/common.h"
#include "ops/index/index.h"
#include "ops/shape/strided_copy.h"

namespace deepjit {

namespace {

void infer_nonzero(InferContext& ctx) {
  expect_type(ctx, "NonZero", 0, is_numeric(ctx.dtype(0)) || is_integer(ctx.dtype(0)) || ctx.dtype(0) == DType::BOOL,
              "a tensor of numbers");
  const Shape& in = ctx.shape(0);
  const Dim rank = in.ranked() ? Dim(in.rank()) : ctx.fresh_dim();
  ctx.set_output(0, DType::INT64, Shape({rank, ctx.fresh_dim()}));
}

// The flat positions of the elements that are not zero.
std::vector<int64_t> nonzero_positions(const TensorView& in) {
  std::vector<int64_t> out;
  const int64_t n = in.count();
  const auto collect = [&]<typename T>() {
    const T* values = in.as<T>();
    for (int64_t i = 0; i < n; ++i) {
      if (load_as_compute(values[i]) != 0) out.push_back(i);
    }
  };
  if (in.dtype == DType::BOOL) {
    collect.template operator()<uint8_t>();
  } else {
    visit_numeric(in.dtype, "NonZero", collect);
  }
  return out;
}

void evaluate_nonzero(EvalContext& ctx) {
  const TensorView& in = ctx.input(0);
  const std::vector<int64_t> found = nonzero_positions(in);
  const auto count = static_cast<int64_t>(found.size());
  const int rank = in.dims.rank();
  int64_t* to = ctx.output(0, DType::INT64, {rank, count}).as<int64_t>();
  if (count == 0) return;
  const Dims strides = in.dims.strides();
  for (int d = 0; d < rank; ++d) {
    for (int64_t k = 0; k < count; ++k) *to++ = found[static_cast<size_t>(k)] / strides[d] % in.dims[d];
  }
}

void infer_compress(InferContext& ctx) {
  expect_type(ctx, "Compress", 1, ctx.dtype(1) == DType::BOOL, "a bool tensor");
  const Shape& in = ctx.shape(0);
  if (!ctx.attrs().has("axis")) return ctx.set_output(0, ctx.dtype(0), ctx.fresh_shape(1));
  Shape out = in;
  if (in.ranked()) {
    out[normalize_axis(ctx.attrs().get_int("axis", 0), in.rank(), "Compress: axis")] = ctx.fresh_dim();
  }
  ctx.set_output(0, ctx.dtype(0), std::move(out));
}

void evaluate_compress(EvalContext& ctx) {
  TensorView in = ctx.input(0);
  if (!ctx.attrs().has("axis")) in.dims = Dims{in.count()};
  const int axis = normalize_axis(ctx.attrs().get_int("axis", 0), in.dims.rank(), "Compress: axis");
  const int64_t limit = in.dims[axis];
  const TensorView& condition = ctx.input(1);
  std::vector<int64_t> kept;
  for (int64_t i = 0; i < condition.count(); ++i) {
    if (condition.as<uint8_t>()[i] == 0) continue;
    if (i >= limit) throw_index_range("Compress", i, limit);
    kept.push_back(i);
  }
  Dims dims = in.dims;
  dims[axis] = static_cast<int64_t>(kept.size());
  const int64_t outer = count_range(dims, 0, axis);
  const int64_t inner = count_range(dims, axis + 1, dims.rank());
  const TensorView out = ctx.output(0, in.dtype, dims);
  visit_movable(in.dtype, [&]<typename T>() {
    T* to = out.as<T>();
    for (int64_t o = 0; o < outer; ++o) {
      for (int64_t k : kept) {
        copy_run(in.as<T>() + (o * limit + k) * inner, to, inner);
        to += inner;
      }
    }
  });
}

}  // namespace

void add_select_ops(OpRegistry& registry) {
  registry.add({.name = "NonZero", .infer = infer_nonzero, .evaluate = evaluate_nonzero});
  registry.add(
      {.name = "Compress", .min_inputs = 2, .max_inputs = 2, .infer = infer_compress, .evaluate = evaluate_compress});
}

}  // namespace deepjit
