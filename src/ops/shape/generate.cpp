// Ops that make data: constants, ranges, windows, one-hot.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/small_types.h"
#include "base/visit.h"
#include "ops/common.h"
#include "ops/pointwise/cast.h"
#include "ops/scalar.h"

namespace deepjit {

namespace {

// Known values are kept only for vectors of shape-like length.
constexpr int64_t kMaxKnownValues = 1024;

// ---- Constant -------------------------------------------------------------------------------------

Tensor constant_value(const Attributes& attrs) {
  if (const Tensor* value = attrs.get_tensor("value")) return *value;
  if (attrs.has("value_int")) {
    const int64_t v = attrs.get_int("value_int", 0);
    return Tensor::from<int64_t>(DType::INT64, {}, std::span(&v, 1));
  }
  if (attrs.has("value_float")) return Tensor::scalar_f32(attrs.get_float("value_float", 0));
  if (attrs.has("value_ints")) return Tensor::vector_i64(attrs.get_ints("value_ints"));
  if (attrs.has("value_floats")) {
    const std::vector<float> v = attrs.get_floats("value_floats");
    return Tensor::from<float>(DType::FLOAT32, Dims{static_cast<int64_t>(v.size())}, std::span<const float>(v));
  }
  if (attrs.has("value_string") || attrs.has("value_strings")) {
    const bool many = attrs.has("value_strings");
    const std::vector<std::string> v =
        many ? attrs.get_strings("value_strings") : std::vector<std::string>{attrs.get_string("value_string", "")};
    const Dims dims = many ? Dims{static_cast<int64_t>(v.size())} : Dims{};
    return Tensor::from<std::string>(DType::STRING, dims, std::span<const std::string>(v));
  }
  throw Error(Code::ATTRIBUTE, "Constant: none of the value attributes is present");
}

void infer_constant(InferContext& ctx) {
  const Tensor value = constant_value(ctx.attrs());
  ctx.set_output(0, value.dtype(), Shape(value.dims()));
  if (!is_integer(value.dtype()) || value.dims().rank() > 1 || value.count() > kMaxKnownValues) return;
  const std::vector<int64_t> values = value.to_i64();
  ctx.set_output_values(0, {values.begin(), values.end()});
}

void evaluate_constant(EvalContext& ctx) {
  const Tensor value = constant_value(ctx.attrs());
  copy_elements(value.view(), ctx.output(0, value.dtype(), value.dims()));
}

// ---- ConstantOfShape ------------------------------------------------------------------------------

Tensor fill_value(const Attributes& attrs) {
  const Tensor* value = attrs.get_tensor("value");
  if (value == nullptr) return Tensor::scalar_f32(0);
  if (value->count() != 1) throw Error(Code::ATTRIBUTE, "ConstantOfShape: value must have one element");
  return *value;
}

void infer_constant_of_shape(InferContext& ctx) {
  const Tensor value = fill_value(ctx.attrs());
  const std::vector<Dim>* wanted = ctx.input_values(0);
  if (wanted == nullptr) {
    const Shape& shape = ctx.shape(0);
    const bool rank_known = shape.ranked() && shape.rank() == 1 && shape[0].is_const();
    ctx.set_output(0, value.dtype(), rank_known ? ctx.fresh_shape(static_cast<int>(shape[0].value())) : Shape());
    return;
  }
  for (const Dim& d : *wanted) {
    if (d.is_const() && d.value() < 0) {
      throw Error(Code::SHAPE_MISMATCH, "ConstantOfShape: negative dim " + d.to_string());
    }
  }
  ctx.set_output(0, value.dtype(), Shape(*wanted));
  if (!is_integer(value.dtype()) || wanted->size() > 1) return;
  const Dim count = Shape(*wanted).count();
  if (!count.is_const() || count.value() > kMaxKnownValues) return;
  ctx.set_output_values(
      0, std::vector<Dim>(static_cast<size_t>(count.value()), Dim(first_of(value.to_i64(), "ConstantOfShape: value"))));
}

void evaluate_constant_of_shape(EvalContext& ctx) {
  const Tensor value = fill_value(ctx.attrs());
  const Dims dims(ctx.ints(0));
  for (int64_t d : dims) {
    if (d < 0) throw Error(Code::SHAPE_MISMATCH, "ConstantOfShape: negative dim " + std::to_string(d));
  }
  const TensorView out = ctx.output(0, value.dtype(), dims);
  visit_storage(value.dtype(), [&]<typename T>() { std::fill_n(out.as<T>(), out.count(), value.as<T>()[0]); });
}

// ---- Range ----------------------------------------------------------------------------------------

[[noreturn]] void fail_zero_delta() { throw Error(Code::RUN_VALUE, "Range: delta must not be 0"); }

template <typename T>
int64_t range_count(T start, T limit, T delta) {
  if (delta == 0) fail_zero_delta();
  if constexpr (std::is_integral_v<T>) {
    using Wide = __int128;
    const Wide distance = static_cast<Wide>(limit) - start;
    if (distance == 0 || (distance > 0) != (delta > 0)) return 0;
    const Wide step = delta;
    const Wide count = (distance + step - (step > 0 ? 1 : -1)) / step;
    if (count > INT64_MAX) throw Error(Code::SHAPE_OVERFLOW, "Range: too many elements");
    return static_cast<int64_t>(count);
  } else {
    const double n = std::ceil((static_cast<double>(limit) - static_cast<double>(start)) / static_cast<double>(delta));
    if (!(n > 0)) return 0;
    if (n > 1e15) throw Error(Code::SHAPE_OVERFLOW, "Range: too many elements");
    return static_cast<int64_t>(n);
  }
}

template <typename F>
void visit_range_type(DType dtype, F&& f) {
  if (is_integer(dtype) && !is_packed(dtype)) return visit_integer(dtype, "Range", f);
  if (dtype == DType::FLOAT64) return f.template operator()<double>();
  if (dtype == DType::FLOAT32) return f.template operator()<float>();
  throw Error(Code::TYPE, "Range: element type " + std::string(dtype_name(dtype)) + " is not supported");
}

// The count as an expression, where start and limit are known and delta is constant.
std::optional<Dim> symbolic_range_count(const Dim& start, const Dim& limit, const Dim& delta) {
  if (!delta.is_const()) return std::nullopt;
  if (delta.value() == 0) fail_zero_delta();
  if (start.is_const() && limit.is_const()) return Dim(range_count(start.value(), limit.value(), delta.value()));
  const bool up = delta.value() > 0;
  return max(ceildiv(up ? limit - start : start - limit, up ? delta : Dim(0) - delta), Dim(0));
}

void infer_range(InferContext& ctx) {
  expect_same_type(ctx, "Range", 1, 0);
  expect_same_type(ctx, "Range", 2, 0);
  const DType dtype = ctx.dtype(0);
  visit_range_type(dtype, []<typename T>() {});
  std::optional<Dim> count;
  const std::vector<Dim>* v[3] = {known_values(ctx, 0), known_values(ctx, 1), known_values(ctx, 2)};
  const bool known = v[0] != nullptr && v[1] != nullptr && v[2] != nullptr;
  for (int i = 0; i < 3; ++i) {
    const std::optional<Dims> dims = ctx.shape(i).as_const();
    if (dims && dims->count() != 1)
      throw Error(Code::SHAPE_MISMATCH, "Range: expected scalars, got " + dims->to_string());
  }
  if (known) count = symbolic_range_count(v[0]->at(0), v[1]->at(0), v[2]->at(0));
  if (!count && ctx.input_data(0) != nullptr && ctx.input_data(1) != nullptr && ctx.input_data(2) != nullptr) {
    visit_range_type(dtype, [&]<typename T>() {
      count = Dim(range_count(*ctx.input_data(0)->as<T>(), *ctx.input_data(1)->as<T>(), *ctx.input_data(2)->as<T>()));
    });
  }
  ctx.set_output(0, dtype, Shape({count ? *count : ctx.fresh_dim()}));
  if (!known || !count || !count->is_const() || count->value() > kMaxKnownValues) return;
  std::vector<Dim> values;
  for (int64_t i = 0; i < count->value(); ++i) values.push_back(v[0]->at(0) + Dim(i) * v[2]->at(0));
  ctx.set_output_values(0, std::move(values));
}

void evaluate_range(EvalContext& ctx) {
  for (int i = 0; i < 3; ++i) expect_elements(ctx, i, 1, "Range: an input");
  visit_range_type(ctx.dtype(0), [&]<typename T>() {
    const T start = *ctx.data<T>(0);
    const T delta = *ctx.data<T>(2);
    const int64_t n = range_count(start, *ctx.data<T>(1), delta);
    T* out = ctx.output(0, ctx.dtype(0), Dims{n}).template as<T>();
    for (int64_t i = 0; i < n; ++i) out[i] = static_cast<T>(start + static_cast<T>(i) * delta);
  });
}

// ---- EyeLike --------------------------------------------------------------------------------------

void infer_eye_like(InferContext& ctx) {
  if (ctx.shape(0).ranked() && ctx.shape(0).rank() != 2) {
    throw Error(Code::SHAPE_MISMATCH, "EyeLike: the input must be a matrix, got " + ctx.shape(0).to_string());
  }
  ctx.set_output(0, dtype_attribute(ctx.attrs(), "dtype", ctx.dtype(0)), ctx.shape(0));
}

// The number 1 as an element of `dtype`.
Tensor one_of(DType dtype) {
  Tensor one(dtype, {});
  cast_elements(Tensor::scalar_f32(1).view(), one.view());
  return one;
}

void evaluate_eye_like(EvalContext& ctx) {
  const TensorView out = ctx.output(0, dtype_attribute(ctx.attrs(), "dtype", ctx.dtype(0)), ctx.dims(0));
  const int64_t k = ctx.attrs().get_int("k", 0);
  const int64_t rows = out.dims[0];
  const int64_t columns = out.dims[1];
  const Tensor one = one_of(out.dtype);
  visit_storage(out.dtype, [&]<typename T>() {
    T* data = out.as<T>();
    std::fill_n(data, out.count(), T(0));
    if (k >= columns || k <= -rows) return;
    for (int64_t r = std::max<int64_t>(0, -k); r < rows && r + k < columns; ++r)
      data[r * columns + r + k] = *one.as<T>();
  });
}

// ---- windows --------------------------------------------------------------------------------------

void infer_window(InferContext& ctx) {
  expect_integer(ctx, "window", 0);
  const std::vector<Dim>* size = known_values(ctx, 0);
  const DType dtype = dtype_attribute(ctx.attrs(), "output_datatype", DType::FLOAT32);
  ctx.set_output(0, dtype, Shape({size != nullptr ? first_of(*size, "the size of a window") : ctx.fresh_dim()}));
}

using WindowFn = double (*)(double);  // of the phase 2 pi n / N

OpDef window_op(std::string name, WindowFn f) {
  auto evaluate = [name, f](EvalContext& ctx) {
    const int64_t n = first_of(ctx.ints(0), name + ": the size");
    if (n < 0) throw Error(Code::RUN_VALUE, name + ": the size must not be negative, got " + std::to_string(n));
    const bool periodic = ctx.attrs().get_int("periodic", 1) != 0;
    const int64_t period = std::max<int64_t>(1, periodic ? n : n - 1);
    Tensor values(DType::FLOAT64, Dims{n});
    for (int64_t i = 0; i < n; ++i) {
      values.as<double>()[i] = f(2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(period));
    }
    const DType dtype = dtype_attribute(ctx.attrs(), "output_datatype", DType::FLOAT32);
    cast_elements(values.view(), ctx.output(0, dtype, Dims{n}));
  };
  return {.name = name, .infer = infer_window, .evaluate = evaluate, .shape_inputs = {0}};
}

double hann(double phase) { return 0.5 - 0.5 * std::cos(phase); }
double hamming(double phase) { return 25.0 / 46.0 - 21.0 / 46.0 * std::cos(phase); }
double blackman(double phase) { return 0.42 - 0.5 * std::cos(phase) + 0.08 * std::cos(2 * phase); }

// ---- OneHot ---------------------------------------------------------------------------------------

void infer_one_hot(InferContext& ctx) {
  expect_numeric(ctx, "OneHot", 0);
  expect_numeric(ctx, "OneHot", 1);
  const Shape& indices = ctx.shape(0);
  if (!indices.ranked()) return ctx.set_output(0, ctx.dtype(2), Shape());
  const std::vector<Dim>* known = known_values(ctx, 1);
  const Tensor* data = ctx.input_data(1);
  Dim depth = known != nullptr  ? first_of(*known, "OneHot: depth")
              : data != nullptr ? Dim(static_cast<int64_t>(first_of(data->to_f64(), "OneHot: depth")))
                                : ctx.fresh_dim();
  const int axis = normalize_axis(ctx.attrs().get_int("axis", -1), indices.rank() + 1, "OneHot axis");
  std::vector<Dim> out = indices.dims();
  out.insert(out.begin() + axis, std::move(depth));
  ctx.set_output(0, ctx.dtype(2), Shape(std::move(out)));
}

// Any numeric input as int64 (fractions truncate).
std::vector<int64_t> as_integers(const TensorView& in) {
  std::vector<int64_t> out(static_cast<size_t>(in.count()));
  cast_elements(in, {DType::INT64, in.dims, out.data()});
  return out;
}

void evaluate_one_hot(EvalContext& ctx) {
  const Dims& indices = ctx.dims(0);
  const int64_t depth = first_of(as_integers(ctx.input(1)), "OneHot: depth");
  if (depth < 0) throw Error(Code::RUN_VALUE, "OneHot: depth must not be negative, got " + std::to_string(depth));
  const int axis = normalize_axis(ctx.attrs().get_int("axis", -1), indices.rank() + 1, "OneHot axis");
  Dims dims = indices;
  dims.insert(axis, depth);
  expect_elements(ctx, 2, 2, "OneHot: values");
  const std::vector<int64_t> at = as_integers(ctx.input(0));
  int64_t inner = 1;
  for (int i = axis; i < indices.rank(); ++i) inner *= indices[i];
  const TensorView out = ctx.output(0, ctx.dtype(2), dims);
  auto run = [&]<typename T>() {
    const T off = ctx.data<T>(2)[0];
    const T on = ctx.data<T>(2)[1];
    std::fill_n(out.as<T>(), out.count(), off);
    for (size_t i = 0; i < at.size(); ++i) {
      const int64_t k = at[i] < 0 ? at[i] + depth : at[i];
      if (k < 0 || k >= depth) continue;  // all off
      const auto position = static_cast<int64_t>(i);
      out.as<T>()[(position / inner * depth + k) * inner + position % inner] = on;
    }
  };
  if (out.dtype == DType::STRING) return run.operator()<std::string>();
  visit_storage(out.dtype, run);
}

}  // namespace

void add_generate_ops(OpRegistry& registry) {
  registry.add(
      {.name = "Constant", .min_inputs = 0, .max_inputs = 0, .infer = infer_constant, .evaluate = evaluate_constant});
  registry.add({.name = "ConstantOfShape",
                .infer = infer_constant_of_shape,
                .evaluate = evaluate_constant_of_shape,
                .shape_inputs = {0}});
  registry.add({.name = "Range",
                .min_inputs = 3,
                .max_inputs = 3,
                .infer = infer_range,
                .evaluate = evaluate_range,
                .shape_inputs = {0, 1, 2}});
  registry.add({.name = "EyeLike", .infer = infer_eye_like, .evaluate = evaluate_eye_like});
  registry.add(window_op("HannWindow", hann));
  registry.add(window_op("HammingWindow", hamming));
  registry.add(window_op("BlackmanWindow", blackman));
  registry.add({.name = "OneHot",
                .min_inputs = 3,
                .max_inputs = 3,
                .infer = infer_one_hot,
                .evaluate = evaluate_one_hot,
                .shape_inputs = {1}});
}

}  // namespace deepjit
