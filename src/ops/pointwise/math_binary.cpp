// Arithmetic on two broadcast operands. Integers wrap around; division by zero gives 0.
#include <cmath>

#include "ops/pointwise/convert.h"
#include "ops/pointwise/math.h"
#include "ops/pointwise/pointwise.h"

namespace deepjit {

void infer_broadcast_pair(InferContext& ctx, DType dtype) {
  ctx.set_output(0, dtype, broadcast_shapes(ctx, ctx.shape(0), ctx.shape(1)));
}

namespace {

using ValueRule = std::optional<Dim> (*)(const Dim&, const Dim&);

// Calls f with a float type, or an unsigned type of the integer's size: enough where wrap-around makes
// signed and unsigned arithmetic the same.
template <typename F>
void visit_wrapping(DType dtype, F&& f) {
  if (is_integer(dtype)) return visit_storage(dtype, f);
  visit_float(dtype, "arithmetic", f);
}

template <typename F>
OpDef arithmetic_op(std::string name, ValueRule values, F evaluate) {
  auto infer = [name, values](InferContext& ctx) {
    expect_numeric(ctx, name, 0);
    expect_same_type(ctx, name, 1, 0);
    infer_broadcast_pair(ctx, ctx.dtype(0));
    propagate_binary_values(ctx, values);
  };
  return {.name = name, .min_inputs = 2, .max_inputs = 2, .infer = infer, .evaluate = evaluate, .pointwise = true};
}

template <typename F>
OpDef wrapping_op(std::string name, ValueRule values, F f) {
  return arithmetic_op(std::move(name), values, [f](EvalContext& ctx) {
    visit_wrapping(ctx.dtype(0), [&]<typename T>() { eval_binary<T, T, T>(ctx, ctx.dtype(0), f); });
  });
}

struct AddScalar {
  template <typename T>
  auto operator()(T a, T b) const {
    return static_cast<wrap_t<T>>(a) + static_cast<wrap_t<T>>(b);
  }
};
struct SubScalar {
  template <typename T>
  auto operator()(T a, T b) const {
    return static_cast<wrap_t<T>>(a) - static_cast<wrap_t<T>>(b);
  }
};
struct MulScalar {
  template <typename T>
  auto operator()(T a, T b) const {
    return static_cast<wrap_t<T>>(a) * static_cast<wrap_t<T>>(b);
  }
};

struct DivScalar {
  template <typename T>
  static constexpr bool kCompact = std::is_integral_v<T>;
  template <typename T>
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      if (b == 0) return 0;
      if constexpr (std::is_signed_v<T>) {
        if (b == -1) return static_cast<T>(wrap_t<T>{0} - static_cast<wrap_t<T>>(a));
      }
      return static_cast<T>(a / b);
    } else {
      return a / b;
    }
  }
};

// The remainder with the sign of the dividend (C's fmod); 0 where C++ leaves that of integers undefined.
struct TruncModScalar {
  template <typename>
  static constexpr bool kCompact = true;
  template <typename T>
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      if (b == 0) return 0;
      if constexpr (std::is_signed_v<T>) {
        if (b == -1) return 0;
      }
      return static_cast<T>(a % b);
    } else {
      return std::fmod(a, b);
    }
  }
};

// The remainder with the sign of the divisor (Python's %).
struct FloorModScalar {
  template <typename>
  static constexpr bool kCompact = true;
  template <typename T>
  T operator()(T a, T b) const {
    const T r = TruncModScalar()(a, b);
    if constexpr (std::is_unsigned_v<T>) {
      return r;
    } else {
      if constexpr (std::is_floating_point_v<T>) {
        if (r == 0) return std::copysign(r, b);
      }
      return static_cast<T>(r != 0 && (r < 0) != (b < 0) ? r + b : r);
    }
  }
};

std::optional<Dim> div_values(const Dim& a, const Dim& b) {
  if (b == 0) return std::nullopt;
  if (a.is_const() && b.is_const()) return Dim(DivScalar()(a.value(), b.value()));
  if (std::optional<Dim> exact = Dim::exact_div(a, b)) return exact;
  if (known_nonnegative(a) && known_nonnegative(b)) return floordiv(a, b);
  return std::nullopt;
}

std::optional<Dim> floor_mod_values(const Dim& a, const Dim& b) {
  if (b == 0) return std::nullopt;
  if (a.is_const() && b.is_const()) return Dim(FloorModScalar()(a.value(), b.value()));
  if (b.is_const() && b.value() > 0) return a - floordiv(a, b) * b;
  return std::nullopt;
}

void evaluate_mod(EvalContext& ctx) {
  const bool fmod = ctx.attrs().get_int("fmod", 0) != 0;
  visit_numeric(ctx.dtype(0), "Mod", [&]<typename T>() {
    if (fmod) return eval_binary<T, T, T>(ctx, ctx.dtype(0), TruncModScalar());
    eval_binary<T, T, T>(ctx, ctx.dtype(0), FloorModScalar());
  });
}

void infer_mod(InferContext& ctx) {
  expect_numeric(ctx, "Mod", 0);
  expect_same_type(ctx, "Mod", 1, 0);
  infer_broadcast_pair(ctx, ctx.dtype(0));
  if (ctx.attrs().get_int("fmod", 0) == 0) propagate_binary_values(ctx, floor_mod_values);
}

// ---- Pow ------------------------------------------------------------------------------------------

template <typename T>
T int_pow(T base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 1) return 1;
    if (base == -1) return exponent % 2 == 0 ? 1 : -1;
    return 0;
  }
  wrap_t<T> result = 1;
  wrap_t<T> factor = static_cast<wrap_t<T>>(base);
  for (; exponent > 0; exponent >>= 1) {
    if ((exponent & 1) != 0) result *= factor;
    factor *= factor;
  }
  return static_cast<T>(result);
}

struct PowScalar {
  template <typename>
  static constexpr bool kCompact = true;
  float operator()(float a, float b) const { return std::pow(a, b); }
  double operator()(double a, double b) const { return std::pow(a, b); }
  int32_t operator()(int32_t a, int64_t b) const { return int_pow(a, b); }
  int64_t operator()(int64_t a, int64_t b) const { return int_pow(a, b); }
  int32_t operator()(int32_t a, double b) const { return float_to_int<int32_t>(std::pow(a, b)); }
  int64_t operator()(int64_t a, double b) const { return float_to_int<int64_t>(std::pow(static_cast<double>(a), b)); }
};

// Exponents that need no pow call.
template <typename T>
bool pow_by_small_constant(const TensorView& out, const T* x, double exponent) {
  using C = compute_t<T>;
  T* y = out.as<T>();
  if (exponent == 1) map_unary(y, x, out.count(), [](C v) { return v; });
  if (exponent == 2) map_unary(y, x, out.count(), [](C v) { return v * v; });
  if (exponent == 3) map_unary(y, x, out.count(), [](C v) { return v * v * v; });
  if (exponent == -1) map_unary(y, x, out.count(), [](C v) { return C(1) / v; });
  return exponent == 1 || exponent == 2 || exponent == 3 || exponent == -1;
}

// Both operands' exponent types meet in one: double for floats, int64 for integers.
template <typename E>
const E* exponent_as(EvalContext& ctx) {
  const int64_t n = ctx.input(1).count();
  E* out = static_cast<E*>(ctx.scratch(static_cast<size_t>(n) * sizeof(E)));
  visit_numeric(ctx.dtype(1), "Pow", [&]<typename T>() {
    for (int64_t i = 0; i < n; ++i) out[i] = static_cast<E>(load_as_compute(ctx.data<T>(1)[i]));
  });
  return out;
}

template <typename T>
void float_pow(EvalContext& ctx, const Dims& dims, const TensorView& out) {
  using C = compute_t<T>;
  const BroadcastPlan plan = make_broadcast_plan(dims, {&ctx.dims(0), &ctx.dims(1)});
  const C* exponents = exponent_as<C>(ctx);
  if (ctx.input(1).count() == 1 && ctx.input(0).count() == out.count() &&
      pow_by_small_constant(out, ctx.data<T>(0), static_cast<double>(exponents[0]))) {
    return;
  }
  map_binary(plan, out.as<T>(), ctx.data<T>(0), exponents, PowScalar());
}

template <typename T>
void integer_pow(EvalContext& ctx, const Dims& dims, const TensorView& out) {
  const BroadcastPlan plan = make_broadcast_plan(dims, {&ctx.dims(0), &ctx.dims(1)});
  if (is_integer(ctx.dtype(1))) {
    map_binary(plan, out.as<T>(), ctx.data<T>(0), exponent_as<int64_t>(ctx), PowScalar());
  } else {
    map_binary(plan, out.as<T>(), ctx.data<T>(0), exponent_as<double>(ctx), PowScalar());
  }
}

void evaluate_pow(EvalContext& ctx) {
  const Dims dims = broadcast_pair(ctx);
  const DType dtype = ctx.dtype(0);
  const TensorView out = ctx.output(0, dtype, dims);
  if (dtype == DType::INT32) return integer_pow<int32_t>(ctx, dims, out);
  if (dtype == DType::INT64) return integer_pow<int64_t>(ctx, dims, out);
  visit_float(dtype, "Pow", [&]<typename T>() { float_pow<T>(ctx, dims, out); });
}

void infer_pow(InferContext& ctx) {
  const DType dtype = ctx.dtype(0);
  expect_type(ctx, "Pow", 0, dtype == DType::INT32 || dtype == DType::INT64 || is_compute_float(dtype),
              "int32, int64 or floating-point");
  expect_numeric(ctx, "Pow", 1);
  infer_broadcast_pair(ctx, dtype);
}

// ---- BitShift -------------------------------------------------------------------------------------

template <bool kLeft>
struct ShiftScalar {
  template <typename>
  static constexpr bool kCompact = true;
  template <typename T>
  T operator()(T a, T b) const {
    if (b >= sizeof(T) * 8) return 0;
    return static_cast<T>(kLeft ? static_cast<wrap_t<T>>(a) << b : static_cast<wrap_t<T>>(a) >> b);
  }
};

bool shifts_left(const Attributes& attrs) {
  const std::string direction = attrs.get_string("direction", "");
  if (direction != "LEFT" && direction != "RIGHT") {
    throw Error(Code::ATTRIBUTE, "BitShift: direction must be LEFT or RIGHT, got \"" + direction + "\"");
  }
  return direction == "LEFT";
}

void infer_bit_shift(InferContext& ctx) {
  shifts_left(ctx.attrs());
  expect_integer(ctx, "BitShift", 0);
  expect_type(ctx, "BitShift", 0, !is_signed_integer(ctx.dtype(0)), "unsigned");
  expect_same_type(ctx, "BitShift", 1, 0);
  infer_broadcast_pair(ctx, ctx.dtype(0));
}

void evaluate_bit_shift(EvalContext& ctx) {
  const bool left = shifts_left(ctx.attrs());
  visit_storage(ctx.dtype(0), [&]<typename T>() {
    if (left) return eval_binary<T, T, T>(ctx, ctx.dtype(0), ShiftScalar<true>());
    eval_binary<T, T, T>(ctx, ctx.dtype(0), ShiftScalar<false>());
  });
}

OpDef pair_op(std::string name, void (*infer)(InferContext&), void (*evaluate)(EvalContext&)) {
  return {.name = std::move(name),
          .min_inputs = 2,
          .max_inputs = 2,
          .infer = infer,
          .evaluate = evaluate,
          .pointwise = true};
}

}  // namespace

void add_binary_math_ops(OpRegistry& registry) {
  registry.add(wrapping_op(
      "Add", [](const Dim& a, const Dim& b) { return std::optional(a + b); }, AddScalar()));
  registry.add(wrapping_op(
      "Sub", [](const Dim& a, const Dim& b) { return std::optional(a - b); }, SubScalar()));
  registry.add(wrapping_op(
      "Mul", [](const Dim& a, const Dim& b) { return std::optional(a * b); }, MulScalar()));
  registry.add(arithmetic_op("Div", div_values, [](EvalContext& ctx) {
    visit_numeric(ctx.dtype(0), "Div", [&]<typename T>() { eval_binary<T, T, T>(ctx, ctx.dtype(0), DivScalar()); });
  }));
  registry.add(pair_op("Mod", infer_mod, evaluate_mod));
  registry.add(pair_op("Pow", infer_pow, evaluate_pow));
  registry.add(pair_op("BitShift", infer_bit_shift, evaluate_bit_shift));
}

}  // namespace deepjit
