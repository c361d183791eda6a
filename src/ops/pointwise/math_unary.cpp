// Unary arithmetic and elementary functions.
#include <cmath>

#include "ops/pointwise/math.h"
#include "ops/pointwise/pointwise.h"
#include "ops/pointwise/vecmath.h"

namespace deepjit {

namespace {

struct AbsScalar {
  template <typename T>
  T operator()(T x) const {
    if constexpr (std::is_floating_point_v<T>) return std::fabs(x);
    if constexpr (std::is_unsigned_v<T>) return x;
    return x < 0 ? static_cast<T>(wrap_t<T>{0} - static_cast<wrap_t<T>>(x)) : x;
  }
};
struct NegScalar {
  template <typename T>
  T operator()(T x) const {
    if constexpr (std::is_floating_point_v<T>) return -x;
    return static_cast<T>(wrap_t<T>{0} - static_cast<wrap_t<T>>(x));
  }
};
struct SignScalar {
  template <typename T>
  T operator()(T x) const {
    if constexpr (std::is_floating_point_v<T>) return x > 0 ? T(1) : x < 0 ? T(-1) : x;  // keeps NaN
    return static_cast<T>((x > 0) - (x < 0));
  }
};

using ValueRule = std::optional<Dim> (*)(const Dim&);

// numeric_unary_op that also knows what becomes of shape values.
template <typename F>
OpDef valued_op(const std::string& name, F f, ValueRule values) {
  OpDef def = numeric_unary_op(name, f);
  def.infer = [infer = def.infer, values](InferContext& ctx) {
    infer(ctx);
    propagate_unary_values(ctx, values);
  };
  return def;
}

std::optional<Dim> abs_values(const Dim& x) {
  if (known_nonnegative(x)) return x;
  if (known_nonnegative(Dim(0) - x)) return Dim(0) - x;
  return std::nullopt;
}

std::optional<Dim> neg_values(const Dim& x) { return Dim(0) - x; }

std::optional<Dim> sign_values(const Dim& x) {
  if (x.is_const()) return Dim((x.value() > 0) - (x.value() < 0));
  return known_nonnegative(x - 1) ? std::optional(Dim(1)) : std::nullopt;
}

void add_rounding_ops(OpRegistry& registry) {
  registry.add(float_unary_op("Ceil", [](auto x) { return std::ceil(x); }));
  registry.add(float_unary_op("Floor", [](auto x) { return std::floor(x); }));
  registry.add(float_unary_op("Round", [](auto x) { return std::rint(x); }));  // half to even
}

void add_trigonometric_ops(OpRegistry& registry) {
  registry.add(float_unary_op("Sin", [](auto x) { return std::sin(x); }));
  registry.add(float_unary_op("Cos", [](auto x) { return std::cos(x); }));
  registry.add(float_unary_op("Tan", [](auto x) { return std::tan(x); }));
  registry.add(float_unary_op("Asin", [](auto x) { return std::asin(x); }));
  registry.add(float_unary_op("Acos", [](auto x) { return std::acos(x); }));
  registry.add(float_unary_op("Atan", [](auto x) { return std::atan(x); }));
  registry.add(float_unary_op("Sinh", [](auto x) { return std::sinh(x); }));
  registry.add(float_unary_op("Cosh", [](auto x) { return std::cosh(x); }));
  registry.add(float_unary_op("Asinh", [](auto x) { return std::asinh(x); }));
  registry.add(float_unary_op("Acosh", [](auto x) { return std::acosh(x); }));
  registry.add(float_unary_op("Atanh", [](auto x) { return std::atanh(x); }));
}

}  // namespace

void add_unary_math_ops(OpRegistry& registry) {
  registry.add(valued_op("Abs", AbsScalar(), abs_values));
  registry.add(valued_op("Neg", NegScalar(), neg_values));
  registry.add(valued_op("Sign", SignScalar(), sign_values));
  registry.add(float_unary_op("Sqrt", [](auto x) { return std::sqrt(x); }));
  registry.add(float_unary_op("Reciprocal", [](auto x) { return 1 / x; }));
  registry.add(float_unary_op("Exp", [](auto x) { return vec_exp(x); }));
  registry.add(float_unary_op("Log", [](auto x) { return vec_log(x); }));
  registry.add(float_unary_op("Erf", [](auto x) { return vec_erf(x); }));
  add_rounding_ops(registry);
  add_trigonometric_ops(registry);
}

}  // namespace deepjit
