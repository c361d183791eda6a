// Max, Min, Sum and Mean of any number of broadcast inputs.
#include <cmath>

#include "ops/pointwise/math.h"
#include "ops/pointwise/pointwise.h"

namespace deepjit {

namespace {

struct MaxScalar {
  template <typename T>
  T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) {
      return a > b || a != a ? a : b;  // a NaN on either side stays
    } else {
      return a > b ? a : b;
    }
  }
};
struct MinScalar {
  template <typename T>
  T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) {
      return a < b || a != a ? a : b;
    } else {
      return a < b ? a : b;
    }
  }
};
struct SumScalar {
  template <typename T>
  T operator()(T a, T b) const {
    return static_cast<T>(static_cast<wrap_t<T>>(a) + static_cast<wrap_t<T>>(b));
  }
};

Dims broadcast_all(const EvalContext& ctx) {
  Dims dims = ctx.dims(0);
  for (int i = 1; i < ctx.num_inputs(); ++i) dims = broadcast_dims(dims, ctx.dims(i));
  return dims;
}

// Where the output is one of three or more inputs' memory, the first step would destroy it.
bool needs_own_memory(const EvalContext& ctx, const TensorView& out) {
  if (ctx.num_inputs() <= 2) return false;
  for (int i = 0; i < ctx.num_inputs(); ++i) {
    if (ctx.input(i).data == out.data) return true;
  }
  return false;
}

template <typename T, typename F>
void fold_inputs(EvalContext& ctx, T* out, const Dims& dims, const F& f) {
  const BroadcastPlan first = make_broadcast_plan(dims, {&ctx.dims(0), &ctx.dims(1)});
  map_binary(first, out, ctx.data<T>(0), ctx.data<T>(1), f);
  for (int i = 2; i < ctx.num_inputs(); ++i) {
    const BroadcastPlan plan = make_broadcast_plan(dims, {&dims, &ctx.dims(i)});
    map_binary(plan, out, static_cast<const T*>(out), ctx.data<T>(i), f);
  }
}

template <typename F>
void evaluate_variadic(EvalContext& ctx, const std::string& name, const F& f, bool mean) {
  const Dims dims = broadcast_all(ctx);
  const TensorView out = ctx.output(0, ctx.dtype(0), dims);
  if (ctx.num_inputs() == 1) return copy_elements(ctx.input(0), out);
  TensorView work = out;
  if (needs_own_memory(ctx, out)) work.data = ctx.scratch(static_cast<size_t>(out.bytes()));
  visit_numeric(out.dtype, name, [&]<typename T>() {
    fold_inputs(ctx, work.as<T>(), dims, f);
    const auto n = static_cast<compute_t<T>>(ctx.num_inputs());
    if (mean) map_unary(work.as<T>(), static_cast<const T*>(work.as<T>()), work.count(), [n](auto x) { return x / n; });
  });
  copy_elements(work, out);
}

void infer_variadic(InferContext& ctx, const std::string& name, bool values_max, bool values_min) {
  expect_numeric(ctx, name, 0);
  for (int i = 1; i < ctx.num_inputs(); ++i) expect_same_type(ctx, name, i, 0);
  ctx.set_output(0, ctx.dtype(0), broadcast_inputs(ctx));
  if (ctx.num_inputs() == 1) return forward_values(ctx, 0);
  if (ctx.num_inputs() != 2) return;
  if (values_max) propagate_binary_values(ctx, [](const Dim& a, const Dim& b) { return std::optional(max(a, b)); });
  if (values_min) propagate_binary_values(ctx, [](const Dim& a, const Dim& b) { return std::optional(min(a, b)); });
}

template <typename F>
OpDef variadic_op(std::string name, F f, bool mean = false) {
  auto infer = [name](InferContext& ctx) { infer_variadic(ctx, name, name == "Max", name == "Min"); };
  auto evaluate = [name, f, mean](EvalContext& ctx) { evaluate_variadic(ctx, name, f, mean); };
  return {.name = name, .min_inputs = 1, .max_inputs = kMany, .infer = infer, .evaluate = evaluate, .pointwise = true};
}

}  // namespace

void add_variadic_math_ops(OpRegistry& registry) {
  registry.add(variadic_op("Max", MaxScalar()));
  registry.add(variadic_op("Min", MinScalar()));
  registry.add(variadic_op("Sum", SumScalar()));
  registry.add(variadic_op("Mean", SumScalar(), true));
}

}  // namespace deepjit
