// ScatterElements, Scatter, ScatterND and TensorScatter: a copy of the data with some elements replaced or
// combined. Updates apply in order, so the last of several to one place wins when there is no reduction.
#include <algorithm>

#include "ops/common.h"
#include "ops/index/index.h"
#include "ops/shape/strided_copy.h"

namespace deepjit {

namespace {

enum class Reduction { NONE, ADD, MUL, MIN, MAX };

Reduction reduction_of(const Attributes& attrs) {
  const std::string name = attrs.get_string("reduction", "none");
  if (name == "none") return Reduction::NONE;
  if (name == "add") return Reduction::ADD;
  if (name == "mul") return Reduction::MUL;
  if (name == "min") return Reduction::MIN;
  if (name == "max") return Reduction::MAX;
  throw Error(Code::ATTRIBUTE, "reduction \"" + name + "\" is unknown");
}

template <Reduction R, typename T>
T combine(T a, T b) {
  using C = compute_t<T>;
  const C x = static_cast<C>(a);
  const C y = static_cast<C>(b);
  if constexpr (R == Reduction::MIN || R == Reduction::MAX) {
    // A NaN on either side stays.
    if (y != y) return b;
    return (R == Reduction::MIN ? y < x : y > x) ? b : a;
  } else if constexpr (std::is_integral_v<T>) {
    // Integers wrap around, as in NumPy.
    const auto u = static_cast<uint64_t>(x);
    const auto v = static_cast<uint64_t>(y);
    return static_cast<T>(R == Reduction::ADD ? u + v : u * v);
  } else {
    return static_cast<T>(R == Reduction::ADD ? x + y : x * y);
  }
}

// Calls body.operator()<T, R>(): T moves or computes elements of `dtype`.
template <typename F>
void visit_reduction(std::string_view op, Reduction reduction, DType dtype, F&& body) {
  if (reduction == Reduction::NONE) {
    return visit_movable(dtype, [&]<typename T>() { body.template operator()<T, Reduction::NONE>(); });
  }
  visit_numeric(dtype, op, [&]<typename T>() {
    switch (reduction) {
      case Reduction::ADD:
        return body.template operator()<T, Reduction::ADD>();
      case Reduction::MUL:
        return body.template operator()<T, Reduction::MUL>();
      case Reduction::MIN:
        return body.template operator()<T, Reduction::MIN>();
      default:
        return body.template operator()<T, Reduction::MAX>();
    }
  });
}

template <Reduction R, typename T>
void store(T& to, const T& value) {
  if constexpr (R == Reduction::NONE) {
    to = value;
  } else {
    to = combine<R>(to, value);
  }
}

void infer_scatter(InferContext& ctx) {
  expect_integer(ctx, "Scatter", 1);
  expect_same_type(ctx, "Scatter", 2, 0);
  reduction_of(ctx.attrs());
  ctx.set_output(0, ctx.input(0));
}

void infer_scatter_elements(InferContext& ctx) {
  infer_scatter(ctx);
  const Shape& in = ctx.shape(0);
  if (!in.ranked()) return;
  normalize_axis(ctx.attrs().get_int("axis", 0), in.rank(), "ScatterElements: axis");
  for (int i = 1; i <= 2; ++i) {
    if (ctx.shape(i).ranked() && ctx.shape(i).rank() != in.rank()) {
      throw Error(Code::SHAPE_MISMATCH, "ScatterElements: data has shape " + in.to_string() + ", input " +
                                            std::to_string(i) + " has " + ctx.shape(i).to_string());
    }
  }
}

void evaluate_scatter_elements(EvalContext& ctx) {
  const TensorView& in = ctx.input(0);
  const Dims& dims = ctx.dims(1);
  const int rank = in.dims.rank();
  const int axis = normalize_axis(ctx.attrs().get_int("axis", 0), rank, "ScatterElements: axis");
  if (dims != ctx.dims(2)) {
    throw Error(Code::SHAPE_MISMATCH, "ScatterElements: indices have shape " + dims.to_string() + ", updates have " +
                                          ctx.dims(2).to_string());
  }
  for (int d = 0; d < rank; ++d) {
    if (d != axis && dims[d] > in.dims[d]) {
      throw Error(Code::SHAPE_MISMATCH, "ScatterElements: indices of shape " + dims.to_string() +
                                            " do not fit data of shape " + in.dims.to_string());
    }
  }
  const TensorView out = ctx.output(0, in.dtype, in.dims);
  copy_elements(in, out);
  const int64_t count = dims.count();
  if (count == 0) return;
  const std::vector<int64_t> indices = ctx.ints(1);
  const Dims strides = in.dims.strides();
  const int64_t row = dims[rank - 1];
  const int64_t step = axis == rank - 1 ? 0 : 1;
  visit_reduction("ScatterElements", reduction_of(ctx.attrs()), in.dtype, [&]<typename T, Reduction R>() {
    Dims at = Dims::filled(rank, 0);
    const int64_t* index = indices.data();
    const T* update = ctx.data<T>(2);
    for (int64_t r = 0; r < count / row; ++r, index += row, update += row) {
      T* to = out.as<T>();
      for (int d = 0; d < rank - 1; ++d) to += d == axis ? 0 : at[d] * strides[d];
      for (int64_t j = 0; j < row; ++j) {
        const int64_t k = wrap_index("ScatterElements", index[j], in.dims[axis]);
        store<R>(to[k * strides[axis] + j * step], update[j]);
      }
      for (int d = rank - 2; d >= 0; --d) {
        if (++at[d] < dims[d]) break;
        at[d] = 0;
      }
    }
  });
}

// ScatterND: indices [q..., depth], updates [q..., data dims from depth on].
void check_scatter_nd(const Dims& data, const Dims& indices, const Dims& updates) {
  bool fits = indices.rank() > 0 && indices.back() >= 0 && indices.back() <= data.rank();
  Dims expected;
  if (fits) {
    for (int i = 0; i + 1 < indices.rank(); ++i) expected.push_back(indices[i]);
    for (int i = static_cast<int>(indices.back()); i < data.rank(); ++i) expected.push_back(data[i]);
    fits = expected == updates;
  }
  if (fits) return;
  throw Error(Code::SHAPE_MISMATCH, "ScatterND: data " + data.to_string() + ", indices " + indices.to_string() +
                                        " and updates " + updates.to_string() + " do not fit together");
}

void infer_scatter_nd(InferContext& ctx) {
  infer_scatter(ctx);
  const auto data = ctx.shape(0).as_const();
  const auto indices = ctx.shape(1).as_const();
  const auto updates = ctx.shape(2).as_const();
  if (data && indices && updates) check_scatter_nd(*data, *indices, *updates);
}

void evaluate_scatter_nd(EvalContext& ctx) {
  const TensorView& in = ctx.input(0);
  check_scatter_nd(in.dims, ctx.dims(1), ctx.dims(2));
  const TensorView out = ctx.output(0, in.dtype, in.dims);
  copy_elements(in, out);
  const auto depth = static_cast<int>(ctx.dims(1).back());
  const int64_t tuples = count_range(ctx.dims(1), 0, ctx.dims(1).rank() - 1);
  const int64_t run = count_range(in.dims, depth, in.dims.rank());
  const Dims strides = in.dims.strides();
  const std::vector<int64_t> indices = ctx.ints(1);
  visit_reduction("ScatterND", reduction_of(ctx.attrs()), in.dtype, [&]<typename T, Reduction R>() {
    const int64_t* tuple = indices.data();
    const T* update = ctx.data<T>(2);
    for (int64_t k = 0; k < tuples; ++k, tuple += depth, update += run) {
      int64_t offset = 0;
      for (int d = 0; d < depth; ++d) offset += wrap_index("ScatterND", tuple[d], in.dims[d]) * strides[d];
      T* to = out.as<T>() + offset;
      if constexpr (R == Reduction::NONE) {
        copy_run(update, to, run);
      } else {
        for (int64_t j = 0; j < run; ++j) store<R>(to[j], update[j]);
      }
    }
  });
}

int cache_axis(const Attributes& attrs, int rank) {
  const int axis = normalize_axis(attrs.get_int("axis", -2), rank, "TensorScatter: axis");
  if (axis == 0) throw Error(Code::ATTRIBUTE, "TensorScatter: axis must not be the batch axis 0");
  return axis;
}

void infer_tensor_scatter(InferContext& ctx) {
  expect_same_type(ctx, "TensorScatter", 1, 0);
  const std::string mode = ctx.attrs().get_string("mode", "linear");
  if (mode != "linear" && mode != "circular") {
    throw Error(Code::ATTRIBUTE, "TensorScatter: mode \"" + mode + "\" is unknown");
  }
  const Shape& cache = ctx.shape(0);
  const Shape& update = ctx.shape(1);
  if (cache.ranked()) cache_axis(ctx.attrs(), cache.rank());
  if (cache.ranked() && update.ranked() && cache.rank() != update.rank()) {
    throw Error(Code::SHAPE_MISMATCH,
                "TensorScatter: the cache has shape " + cache.to_string() + ", the update has " + update.to_string());
  }
  ctx.set_output(0, ctx.input(0));
}

void evaluate_tensor_scatter(EvalContext& ctx) {
  const TensorView& cache = ctx.input(0);
  const TensorView& update = ctx.input(1);
  const int axis = cache_axis(ctx.attrs(), cache.dims.rank());
  Dims expected = cache.dims;
  expected[axis] = std::min(update.dims[axis], cache.dims[axis]);
  if (expected != update.dims) {
    throw Error(Code::SHAPE_MISMATCH, "TensorScatter: an update of shape " + update.dims.to_string() +
                                          " does not fit a cache of shape " + cache.dims.to_string());
  }
  const int64_t batch = cache.dims[0];
  const std::vector<int64_t> starts = ctx.has_input(2) ? ctx.ints(2) : std::vector<int64_t>(batch, 0);
  if (static_cast<int64_t>(starts.size()) != batch) {
    throw Error(Code::SHAPE_MISMATCH, "TensorScatter: write_indices must have one element per batch entry");
  }
  const bool circular = ctx.attrs().get_string("mode", "linear") == "circular";
  const int64_t limit = cache.dims[axis];
  const int64_t length = update.dims[axis];
  const int64_t middle = count_range(cache.dims, 1, axis);
  const int64_t inner = count_range(cache.dims, axis + 1, cache.dims.rank());
  const TensorView out = ctx.output(0, cache.dtype, cache.dims);
  copy_elements(cache, out);
  visit_movable(cache.dtype, [&]<typename T>() {
    const T* from = update.as<T>();
    for (int64_t row = 0; row < batch * middle; ++row) {
      int64_t start = starts[static_cast<size_t>(row / middle)];
      if (circular && limit > 0) start = (start % limit + limit) % limit;
      if (start < 0 || start > limit) throw_index_range("TensorScatter", start, limit);
      for (int64_t s = 0; s < length; ++s, from += inner) {
        int64_t at = start + s;
        if (circular && at >= limit) at -= limit;
        if (at >= limit) throw_index_range("TensorScatter", at, limit);
        copy_run(from, out.as<T>() + (row * limit + at) * inner, inner);
      }
    }
  });
}

}  // namespace

void add_scatter_ops(OpRegistry& registry) {
  for (const char* name : {"ScatterElements", "Scatter"}) {
    registry.add({.name = name,
                  .min_inputs = 3,
                  .max_inputs = 3,
                  .infer = infer_scatter_elements,
                  .evaluate = evaluate_scatter_elements});
  }
  registry.add({.name = "ScatterND",
                .min_inputs = 3,
                .max_inputs = 3,
                .infer = infer_scatter_nd,
                .evaluate = evaluate_scatter_nd});
  registry.add({.name = "TensorScatter",
                .min_inputs = 2,
                .max_inputs = 3,
                .infer = infer_tensor_scatter,
                .evaluate = evaluate_tensor_scatter});
}

}  // namespace deepjit
