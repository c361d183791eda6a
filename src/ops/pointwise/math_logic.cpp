// Comparison, logic and bit operations on broadcast operands.
#include <cmath>

#include "base/small_types.h"
#include "ops/pointwise/math.h"
#include "ops/pointwise/pointwise.h"

namespace deepjit {

namespace {

OpDef pair_op(std::string name, std::function<void(InferContext&)> infer, std::function<void(EvalContext&)> evaluate) {
  return {.name = std::move(name),
          .min_inputs = 2,
          .max_inputs = 2,
          .infer = std::move(infer),
          .evaluate = std::move(evaluate),
          .pointwise = true};
}

// ---- comparison -----------------------------------------------------------------------------------

struct EqualScalar {
  template <typename T>
  bool operator()(const T& a, const T& b) const {
    return a == b;
  }
};
struct GreaterScalar {
  template <typename T>
  bool operator()(T a, T b) const {
    return a > b;
  }
};
struct GreaterOrEqualScalar {
  template <typename T>
  bool operator()(T a, T b) const {
    return a >= b;
  }
};

void infer_equal(InferContext& ctx) {
  const DType dtype = ctx.dtype(0);
  expect_type(ctx, "Equal", 0, is_numeric(dtype) || dtype == DType::BOOL || dtype == DType::STRING,
              "numeric, bool or string");
  expect_same_type(ctx, "Equal", 1, 0);
  infer_broadcast_pair(ctx, DType::BOOL);
  propagate_binary_values(ctx, [](const Dim& a, const Dim& b) -> std::optional<Dim> {
    if (a == b) return Dim(1);
    const Dim difference = a - b;
    if (difference.is_const()) return Dim(0);
    // A size never equals something below it (Equal(shape, -1)).
    if (known_nonnegative(difference - 1) || known_nonnegative(b - a - 1)) return Dim(0);
    return std::nullopt;
  });
}

void equal_strings(EvalContext& ctx) {
  const Dims dims = broadcast_pair(ctx);
  uint8_t* out = ctx.output(0, DType::BOOL, dims).as<uint8_t>();
  const BroadcastPlan plan = make_broadcast_plan(dims, {&ctx.dims(0), &ctx.dims(1)});
  const std::string* a = ctx.data<std::string>(0);
  const std::string* b = ctx.data<std::string>(1);
  for_each_row(plan, [&](int64_t o, const RowOffsets& at) {
    for (int64_t i = 0; i < plan.inner(); ++i) {
      out[o + i] = a[at[0] + (plan.moves(0) ? i : 0)] == b[at[1] + (plan.moves(1) ? i : 0)];
    }
  });
}

void evaluate_equal(EvalContext& ctx) {
  const DType dtype = ctx.dtype(0);
  if (dtype == DType::STRING) return equal_strings(ctx);
  auto run = [&]<typename T>() { eval_binary<uint8_t, T, T>(ctx, DType::BOOL, EqualScalar()); };
  if (is_float(dtype)) return visit_float(dtype, "Equal", run);
  visit_storage(dtype, run);
}

// Less is Greater with its operands exchanged.
template <typename F>
OpDef order_op(std::string name, F f, bool exchange) {
  auto infer = [name, f, exchange](InferContext& ctx) {
    expect_numeric(ctx, name, 0);
    expect_same_type(ctx, name, 1, 0);
    infer_broadcast_pair(ctx, DType::BOOL);
    propagate_binary_values(ctx, [&](const Dim& a, const Dim& b) -> std::optional<Dim> {
      if (!(a - b).is_const()) return std::nullopt;
      const int64_t sign = (a - b).value();
      return Dim(exchange ? f(int64_t{0}, sign) : f(sign, int64_t{0}));
    });
  };
  auto evaluate = [name, f, exchange](EvalContext& ctx) {
    const Dims dims = broadcast_pair(ctx);
    uint8_t* out = ctx.output(0, DType::BOOL, dims).as<uint8_t>();
    const int a = exchange ? 1 : 0;
    const BroadcastPlan plan = make_broadcast_plan(dims, {&ctx.dims(a), &ctx.dims(1 - a)});
    visit_numeric(ctx.dtype(0), name,
                  [&]<typename T>() { map_binary(plan, out, ctx.data<T>(a), ctx.data<T>(1 - a), f); });
  };
  return pair_op(name, infer, evaluate);
}

// ---- logic and bits -------------------------------------------------------------------------------

struct AndScalar {
  template <typename T>
  T operator()(T a, T b) const {
    return static_cast<T>(a & b);
  }
};
struct OrScalar {
  template <typename T>
  T operator()(T a, T b) const {
    return static_cast<T>(a | b);
  }
};
struct XorScalar {
  template <typename T>
  T operator()(T a, T b) const {
    return static_cast<T>(a ^ b);
  }
};

void expect_bool(const InferContext& ctx, std::string_view op, int i) {
  expect_type(ctx, op, i, ctx.dtype(i) == DType::BOOL, "bool");
}

template <typename F>
OpDef logic_op(std::string name, F f) {
  auto infer = [name, f](InferContext& ctx) {
    expect_bool(ctx, name, 0);
    expect_bool(ctx, name, 1);
    infer_broadcast_pair(ctx, DType::BOOL);
    propagate_binary_values(ctx, [&](const Dim& a, const Dim& b) -> std::optional<Dim> {
      if (!a.is_const() || !b.is_const()) return std::nullopt;
      return Dim(f(int64_t{a.value() != 0}, int64_t{b.value() != 0}));
    });
  };
  auto evaluate = [f](EvalContext& ctx) {
    auto on_bools = [f](uint8_t a, uint8_t b) { return f(static_cast<uint8_t>(a != 0), static_cast<uint8_t>(b != 0)); };
    eval_binary<uint8_t, uint8_t, uint8_t>(ctx, DType::BOOL, on_bools);
  };
  return pair_op(name, infer, evaluate);
}

template <typename F>
OpDef bitwise_op(std::string name, F f) {
  auto infer = [name](InferContext& ctx) {
    expect_integer(ctx, name, 0);
    expect_same_type(ctx, name, 1, 0);
    infer_broadcast_pair(ctx, ctx.dtype(0));
  };
  auto evaluate = [f](EvalContext& ctx) {
    visit_storage(ctx.dtype(0), [&]<typename T>() { eval_binary<T, T, T>(ctx, ctx.dtype(0), f); });
  };
  return pair_op(name, infer, evaluate);
}

void infer_not(InferContext& ctx) {
  expect_bool(ctx, "Not", 0);
  infer_like_input(ctx);
  propagate_unary_values(ctx, [](const Dim& a) -> std::optional<Dim> {
    return a.is_const() ? std::optional(Dim(a.value() == 0)) : std::nullopt;
  });
}

void evaluate_not(EvalContext& ctx) {
  eval_unary<uint8_t, uint8_t>(ctx, DType::BOOL, [](uint8_t x) { return x == 0; });
}

void infer_bitwise_not(InferContext& ctx) {
  expect_integer(ctx, "BitwiseNot", 0);
  infer_like_input(ctx);
}

void evaluate_bitwise_not(EvalContext& ctx) {
  visit_storage(ctx.dtype(0), [&]<typename T>() { eval_unary<T, T>(ctx, ctx.dtype(0), [](T x) { return ~x; }); });
}

// ---- IsNaN, IsInf ---------------------------------------------------------------------------------

OpDef float_test_op(std::string name, void (*evaluate)(EvalContext&)) {
  auto infer = [name](InferContext& ctx) {
    expect_type(ctx, name, 0, is_float(ctx.dtype(0)), "a floating-point tensor");
    ctx.set_output(0, DType::BOOL, ctx.shape(0));
  };
  return {.name = name, .infer = infer, .evaluate = evaluate, .pointwise = true};
}

template <typename F>
void eval_float_test(EvalContext& ctx, const F& f) {
  const DType dtype = ctx.dtype(0);
  if (is_small_float(dtype)) {
    eval_unary<uint8_t, uint8_t>(ctx, DType::BOOL, [&](uint8_t bits) { return f(small_float_to_float(dtype, bits)); });
  } else {
    visit_float(dtype, "IsNaN", [&]<typename T>() { eval_unary<uint8_t, T>(ctx, DType::BOOL, f); });
  }
}

void evaluate_is_nan(EvalContext& ctx) {
  eval_float_test(ctx, [](auto x) { return x != x; });
}

void evaluate_is_inf(EvalContext& ctx) {
  const bool negative = ctx.attrs().get_int("detect_negative", 1) != 0;
  const bool positive = ctx.attrs().get_int("detect_positive", 1) != 0;
  eval_float_test(ctx, [=](auto x) {
    constexpr auto kInf = std::numeric_limits<decltype(x)>::infinity();
    return (positive && x == kInf) || (negative && x == -kInf);
  });
}

}  // namespace

void add_logic_ops(OpRegistry& registry) {
  registry.add(pair_op("Equal", infer_equal, evaluate_equal));
  registry.add(order_op("Greater", GreaterScalar(), false));
  registry.add(order_op("Less", GreaterScalar(), true));
  registry.add(order_op("GreaterOrEqual", GreaterOrEqualScalar(), false));
  registry.add(order_op("LessOrEqual", GreaterOrEqualScalar(), true));
  registry.add(logic_op("And", AndScalar()));
  registry.add(logic_op("Or", OrScalar()));
  registry.add(logic_op("Xor", XorScalar()));
  registry.add(bitwise_op("BitwiseAnd", AndScalar()));
  registry.add(bitwise_op("BitwiseOr", OrScalar()));
  registry.add(bitwise_op("BitwiseXor", XorScalar()));
  registry.add({.name = "Not", .infer = infer_not, .evaluate = evaluate_not, .pointwise = true});
  registry.add({.name = "BitwiseNot", .infer = infer_bitwise_not, .evaluate = evaluate_bitwise_not, .pointwise = true});
  registry.add(float_test_op("IsNaN", evaluate_is_nan));
  registry.add(float_test_op("IsInf", evaluate_is_inf));
}

}  // namespace deepjit
