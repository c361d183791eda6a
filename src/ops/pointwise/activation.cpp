// Activation functions. Reduced-precision types compute in float.
#include <cmath>
#include <limits>

#include "ops/pointwise/pointwise.h"
#include "ops/pointwise/vecmath.h"
#include "ops/scalar.h"

namespace deepjit {

namespace {

// A float unary op whose scalar function is made from the attributes: make(attrs) gives a lambda over
// compute types.
template <typename Make>
OpDef attributed_op(std::string name, Make make) {
  auto infer = [name](InferContext& ctx) {
    expect_compute_float(ctx, name, 0);
    infer_like_input(ctx);
  };
  auto evaluate = [name, make](EvalContext& ctx) {
    const auto f = make(ctx.attrs());
    visit_float(ctx.dtype(0), name, [&]<typename T>() { eval_unary<T, T>(ctx, ctx.dtype(0), f); });
  };
  return {.name = name, .infer = infer, .evaluate = evaluate, .pointwise = true};
}

auto make_leaky_relu(const Attributes& attrs) {
  return [alpha = attrs.get_float("alpha", 0.01f)](auto x) { return x * (x < 0 ? alpha : 1.0f); };
}

// x where it is positive, alpha (e^x - 1) where it is not, without a branch.
template <typename T>
T elu(T x, T alpha) {
  return (x < 0 ? T(0) : x) + alpha * vec_expm1(x > 0 ? T(0) : x);
}

auto make_elu(const Attributes& attrs) {
  return [alpha = attrs.get_float("alpha", 1.0f)](auto x) { return elu<decltype(x)>(x, alpha); };
}

auto make_selu(const Attributes& attrs) {
  const float alpha = attrs.get_float("alpha", 1.67326319217681884765625f);
  const float gamma = attrs.get_float("gamma", 1.05070102214813232421875f);
  return [alpha, gamma](auto x) { return gamma * elu<decltype(x)>(x, alpha); };
}

auto make_celu(const Attributes& attrs) {
  return [alpha = attrs.get_float("alpha", 1.0f)](auto x) {
    return (x < 0 ? 0 : x) + alpha * vec_expm1((x > 0 ? 0 : x) / alpha);
  };
}

auto make_thresholded_relu(const Attributes& attrs) {
  return [alpha = attrs.get_float("alpha", 1.0f)](auto x) { return x > alpha ? x : x != x ? x : decltype(x)(0); };
}

auto make_hard_sigmoid(const Attributes& attrs) {
  const float alpha = attrs.get_float("alpha", 0.2f);
  const float beta = attrs.get_float("beta", 0.5f);
  return [alpha, beta](auto x) {
    using T = decltype(x);
    const T y = alpha * x + beta;
    return y < 0 ? T(0) : y > 1 ? T(1) : y;
  };
}

auto make_hard_swish(const Attributes&) {
  return [](auto x) {
    using T = decltype(x);
    const T y = x / 6 + T(0.5);
    return x * (y < 0 ? T(0) : y > 1 ? T(1) : y);
  };
}

auto make_swish(const Attributes& attrs) {
  return [alpha = attrs.get_float("alpha", 1.0f)](auto x) { return x * vec_sigmoid(alpha * x); };
}

// x tanh(log(1 + e^x)), with the tanh of a logarithm written out.
struct MishScalar {
  template <typename T>
  T operator()(T x) const {
    const T e = vec_exp(x > 20 ? T(20) : x);
    const T y = e * (e + 2);
    return x * (y / (y + 2));
  }
};

void infer_gelu(InferContext& ctx) {
  expect_compute_float(ctx, "Gelu", 0);
  const std::string kind = ctx.attrs().get_string("approximate", "none");
  if (kind != "none" && kind != "tanh") {
    throw Error(Code::ATTRIBUTE, "Gelu: approximate must be none or tanh, got \"" + kind + "\"");
  }
  infer_like_input(ctx);
}

void evaluate_gelu(EvalContext& ctx) {
  const bool tanh = ctx.attrs().get_string("approximate", "none") == "tanh";
  visit_float(ctx.dtype(0), "Gelu", [&]<typename T>() {
    using C = compute_t<T>;
    auto exact = [](C x) { return C(0.5) * x * (1 + vec_erf(x * C(0.70710678118654752440))); };
    auto approximate = [](C x) {
      return C(0.5) * x * (1 + vec_tanh(C(0.79788456080286535588) * (x + C(0.044715) * x * x * x)));
    };
    if (tanh) return eval_unary<T, T>(ctx, ctx.dtype(0), approximate);
    eval_unary<T, T>(ctx, ctx.dtype(0), exact);
  });
}

struct ReluScalar {
  template <typename T>
  T operator()(T x) const {
    return x < 0 ? T(0) : x;  // NaN stays
  }
};

void infer_shrink(InferContext& ctx) {
  expect_numeric(ctx, "Shrink", 0);
  infer_like_input(ctx);
}

void evaluate_shrink(EvalContext& ctx) {
  const float bias = ctx.attrs().get_float("bias", 0.0f);
  const float lambda = ctx.attrs().get_float("lambd", 0.5f);
  visit_numeric(ctx.dtype(0), "Shrink", [&]<typename T>() {
    using C = compute_t<T>;
    // Integers compute in double, so that a fractional bias is rounded once, at the end.
    using W = std::conditional_t<std::is_integral_v<C>, double, C>;
    eval_unary<T, T>(ctx, ctx.dtype(0), [=](C v) {
      const W x = static_cast<W>(v);
      return static_cast<C>(x < -W(lambda) ? x + W(bias) : x > W(lambda) ? x - W(bias) : W(0));
    });
  });
}

// ---- PRelu, Clip, Dropout -------------------------------------------------------------------------

void infer_prelu(InferContext& ctx) {
  expect_numeric(ctx, "PRelu", 0);
  expect_same_type(ctx, "PRelu", 1, 0);
  ctx.set_output(0, ctx.dtype(0), ctx.shape(0));
  broadcast_shapes(ctx, ctx.shape(0), ctx.shape(1));  // throws where they do not fit
}

void evaluate_prelu(EvalContext& ctx) {
  const Dims& dims = ctx.dims(0);
  if (broadcast_pair(ctx) != dims) {
    throw Error(Code::SHAPE_MISMATCH,
                "PRelu: slope " + ctx.dims(1).to_string() + " does not broadcast to input " + dims.to_string());
  }
  const TensorView out = ctx.output(0, ctx.dtype(0), dims);
  const BroadcastPlan plan = make_broadcast_plan(dims, {&dims, &ctx.dims(1)});
  visit_numeric(out.dtype, "PRelu", [&]<typename T>() {
    using C = compute_t<T>;
    map_binary(plan, out.as<T>(), ctx.data<T>(0), ctx.data<T>(1), [](C x, C slope) {
      return x < 0 ? static_cast<C>(static_cast<wrap_t<C>>(x) * static_cast<wrap_t<C>>(slope)) : x;
    });
  });
}

void infer_clip(InferContext& ctx) {
  expect_numeric(ctx, "Clip", 0);
  for (int i = 1; i <= 2; ++i) {
    if (!ctx.has_input(i)) continue;
    expect_same_type(ctx, "Clip", i, 0);
    const Shape& shape = ctx.shape(i);
    if (shape.ranked() && shape.rank() != 0 &&
        !(shape.rank() == 1 && !(shape[0].is_const() && shape[0].value() != 1))) {
      throw Error(Code::SHAPE_MISMATCH, "Clip: min and max must be scalars, got " + shape.to_string());
    }
  }
  infer_like_input(ctx);
  const std::vector<Dim>* low = known_values(ctx, 1);
  const std::vector<Dim>* high = known_values(ctx, 2);
  if ((ctx.has_input(1) && low == nullptr) || (ctx.has_input(2) && high == nullptr)) return;
  propagate_unary_values(ctx, [&](const Dim& x) {
    Dim out = x;
    if (low != nullptr) out = max(out, first_of(*low, "Clip: min"));
    if (high != nullptr) out = min(out, first_of(*high, "Clip: max"));
    return std::optional(out);
  });
}

template <typename T>
void clip(EvalContext& ctx, const TensorView& out) {
  using C = compute_t<T>;
  using Limits = std::numeric_limits<C>;
  const C lowest = Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
  const C largest = Limits::has_infinity ? Limits::infinity() : Limits::max();
  const C low = ctx.has_input(1) ? load_as_compute(ctx.data<T>(1)[0]) : lowest;
  const C high = ctx.has_input(2) ? load_as_compute(ctx.data<T>(2)[0]) : largest;
  map_unary(out.as<T>(), ctx.data<T>(0), out.count(), [low, high](C x) {
    const C above = x < low ? low : x;
    return above > high ? high : above;
  });
}

void evaluate_clip(EvalContext& ctx) {
  for (int i = 1; i <= 2; ++i) {
    if (ctx.has_input(i)) expect_elements(ctx, i, 1, "Clip: a bound");
  }
  const TensorView out = ctx.output(0, ctx.dtype(0), ctx.dims(0));
  visit_numeric(out.dtype, "Clip", [&]<typename T>() { clip<T>(ctx, out); });
}

bool training_mode_unsupported(bool training, double ratio) { return training && ratio != 0.0; }

[[noreturn]] void fail_training() {
  throw Error(Code::UNSUPPORTED_OP, "Dropout: training mode with a ratio above 0 is not supported",
              "export the model in inference mode");
}

void infer_dropout(InferContext& ctx) {
  expect_type(ctx, "Dropout", 0, is_float(ctx.dtype(0)), "a floating-point tensor");
  const Tensor* training = ctx.has_input(2) ? ctx.input_data(2) : nullptr;
  const Tensor* ratio = ctx.has_input(1) ? ctx.input_data(1) : nullptr;
  if (training != nullptr && (ratio != nullptr || !ctx.has_input(1)) &&
      training_mode_unsupported(first_of(training->to_i64(), "training_mode") != 0,
                                ratio != nullptr ? first_of(ratio->to_f64(), "ratio") : 0.5)) {
    fail_training();
  }
  infer_like_input(ctx);
  if (ctx.num_outputs() > 1) ctx.set_output(1, DType::BOOL, ctx.shape(0));
}

void evaluate_dropout(EvalContext& ctx) {
  if (ctx.has_input(2)) expect_elements(ctx, 2, 1, "training_mode");
  const bool training = ctx.has_input(2) && ctx.data<uint8_t>(2)[0] != 0;
  const double ratio = ctx.has_input(1) && training ? first_of(to_f64(ctx.input(1)), "ratio") : 0.5;
  if (training_mode_unsupported(training, ratio)) fail_training();
  if (ctx.has_output(1)) {
    const TensorView mask = ctx.output(1, DType::BOOL, ctx.dims(0));
    std::fill_n(mask.as<uint8_t>(), mask.count(), uint8_t{1});
  }
  if (ctx.has_output(0)) copy_elements(ctx.input(0), ctx.output(0, ctx.dtype(0), ctx.dims(0)));
}

}  // namespace

void add_activation_ops(OpRegistry& registry) {
  registry.add(numeric_unary_op("Relu", ReluScalar()));
  registry.add(attributed_op("LeakyRelu", make_leaky_relu));
  registry.add(attributed_op("Elu", make_elu));
  registry.add(attributed_op("Selu", make_selu));
  registry.add(attributed_op("Celu", make_celu));
  registry.add(attributed_op("ThresholdedRelu", make_thresholded_relu));
  registry.add(attributed_op("HardSigmoid", make_hard_sigmoid));
  registry.add(attributed_op("HardSwish", make_hard_swish));
  registry.add(attributed_op("Swish", make_swish));
  registry.add(float_unary_op("Sigmoid", [](auto x) { return vec_sigmoid(x); }));
  registry.add(float_unary_op("Tanh", [](auto x) { return vec_tanh(x); }));
  registry.add(float_unary_op("Softplus", [](auto x) { return vec_softplus(x); }));
  registry.add(float_unary_op("Softsign", [](auto x) { return x / (1 + std::fabs(x)); }));
  registry.add(float_unary_op("Mish", MishScalar()));
  registry.add({.name = "Gelu", .infer = infer_gelu, .evaluate = evaluate_gelu, .pointwise = true});
  registry.add({.name = "Shrink", .infer = infer_shrink, .evaluate = evaluate_shrink, .pointwise = true});
  registry.add({.name = "PRelu",
                .min_inputs = 2,
                .max_inputs = 2,
                .infer = infer_prelu,
                .evaluate = evaluate_prelu,
                .pointwise = true});
  registry.add({.name = "Clip", .max_inputs = 3, .infer = infer_clip, .evaluate = evaluate_clip, .pointwise = true});
  registry.add({.name = "Dropout",
                .max_inputs = 3,
                .max_outputs = 2,
                .infer = infer_dropout,
                .evaluate = evaluate_dropout,
                .pointwise = true});
}

}  // namespace deepjit
