// The math family's entry, and Where.
#include "ops/pointwise/math.h"

#include "ops/pointwise/pointwise.h"

namespace deepjit {

namespace {

void infer_where(InferContext& ctx) {
  expect_type(ctx, "Where", 0, ctx.dtype(0) == DType::BOOL, "bool");
  expect_same_type(ctx, "Where", 2, 1);
  ctx.set_output(0, ctx.dtype(1), broadcast_inputs(ctx));

  const std::vector<Dim>* values[3] = {known_values(ctx, 0), known_values(ctx, 1), known_values(ctx, 2)};
  std::vector<Dim> condition;
  if (values[0] == nullptr && ctx.input_data(0) != nullptr && ctx.input_data(0)->dims().rank() <= 1) {
    for (int64_t v : ctx.input_data(0)->to_i64()) condition.push_back(v);
    values[0] = &condition;
  }
  size_t n = 1;
  for (const std::vector<Dim>* v : values) {
    if (v == nullptr) return;
    if (v->size() != 1) n = v->size();
  }
  std::vector<Dim> out;
  for (size_t i = 0; i < n; ++i) {
    const auto element = [&](int k) { return (*values[k])[values[k]->size() == 1 ? 0 : i]; };
    if (!element(0).is_const()) return;
    out.push_back(element(0).value() != 0 ? element(1) : element(2));
  }
  ctx.set_output_values(0, std::move(out));
}

template <bool kMoveC, bool kMoveX, bool kMoveY, typename T>
[[gnu::always_inline]] inline void where_loop(T* out, const uint8_t* c, const T* x, const T* y, int64_t n) {
  const bool c0 = c[0] != 0;
  const T x0 = x[0];
  const T y0 = y[0];
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    const T on_true = kMoveX ? x[i] : x0;
    const T on_false = kMoveY ? y[i] : y0;
    const bool take = kMoveC ? c[i] != 0 : c0;
    if constexpr (std::is_integral_v<T>) {  // masks vectorize where a select over two element sizes does not
      const T mask = static_cast<T>(T(0) - static_cast<T>(take));
      out[i] = static_cast<T>((on_true & mask) | (on_false & static_cast<T>(~mask)));
    } else {
      out[i] = take ? on_true : on_false;
    }
  }
}

template <bool kMoveC, bool kMoveX, bool kMoveY, typename T>
[[gnu::target("avx2"), gnu::noinline]] void where_wide(T* out, const uint8_t* c, const T* x, const T* y, int64_t n) {
  where_loop<kMoveC, kMoveX, kMoveY>(out, c, x, y, n);
}

template <bool kMoveC, bool kMoveX, bool kMoveY, typename T>
void where_row(T* out, const uint8_t* c, const T* x, const T* y, int64_t n) {
  if constexpr (std::is_same_v<T, uint32_t>) {
    if (cpu_has_avx2()) return where_wide<kMoveC, kMoveX, kMoveY>(out, c, x, y, n);
  }
  where_loop<kMoveC, kMoveX, kMoveY>(out, c, x, y, n);
}

template <typename T>
using WhereRow = void (*)(T*, const uint8_t*, const T*, const T*, int64_t);

template <typename T>
WhereRow<T> choose_row(const BroadcastPlan& plan) {
  constexpr WhereRow<T> kRows[8] = {where_row<false, false, false, T>, where_row<false, false, true, T>,
                                    where_row<false, true, false, T>,  where_row<false, true, true, T>,
                                    where_row<true, false, false, T>,  where_row<true, false, true, T>,
                                    where_row<true, true, false, T>,   where_row<true, true, true, T>};
  return kRows[(plan.moves(0) ? 4 : 0) + (plan.moves(1) ? 2 : 0) + (plan.moves(2) ? 1 : 0)];
}

void evaluate_where(EvalContext& ctx) {
  const Dims dims = broadcast_dims(broadcast_pair(ctx, 0, 1), ctx.dims(2));
  const TensorView out = ctx.output(0, ctx.dtype(1), dims);
  const BroadcastPlan plan = make_broadcast_plan(dims, {&ctx.dims(0), &ctx.dims(1), &ctx.dims(2)});
  const uint8_t* condition = ctx.data<uint8_t>(0);
  auto run = [&]<typename T>() {
    const WhereRow<T> row = choose_row<T>(plan);
    const T* x = ctx.data<T>(1);
    const T* y = ctx.data<T>(2);
    for_each_row(plan, [&](int64_t o, const RowOffsets& at) {
      row(out.as<T>() + o, condition + at[0], x + at[1], y + at[2], plan.inner());
    });
  };
  if (out.dtype == DType::STRING) return run.operator()<std::string>();
  visit_storage(out.dtype, run);
}

}  // namespace

void add_math_ops(OpRegistry& registry) {
  add_binary_math_ops(registry);
  add_logic_ops(registry);
  add_unary_math_ops(registry);
  add_variadic_math_ops(registry);
  registry.add({.name = "Where",
                .min_inputs = 3,
                .max_inputs = 3,
                .infer = infer_where,
                .evaluate = evaluate_where,
                .pointwise = true});
}

}  // namespace deepjit
