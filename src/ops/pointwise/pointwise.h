// Drivers for pointwise loops: one for unary ops, one for two broadcast operands, one for three.
//
// A BroadcastPlan turns N operand shapes and an output shape into few dims: dims of size 1 vanish and
// neighbours with the same pattern merge, so "same shape", "one scalar" and "bias over a row" become one
// flat loop. Ops supply a scalar lambda over compute types (float for float16); the inner loops are plain
// enough for the compiler to vectorize. An output may be exactly one operand's memory.
#pragma once

#include <array>
#include <type_traits>

#include "base/visit.h"
#include "ops/common.h"

namespace deepjit {

struct BroadcastPlan {
  static constexpr int kMaxOperands = 3;
  int rank = 0;  // at least 1
  std::array<int64_t, kMaxRank> dims{};
  std::array<std::array<int64_t, kMaxRank>, kMaxOperands> strides{};  // in elements; 0 where broadcast

  int64_t inner() const { return dims[static_cast<size_t>(rank - 1)]; }
  // 1 or 0: how operand k moves along the inner dim.
  bool moves(int k) const { return strides[static_cast<size_t>(k)][static_cast<size_t>(rank - 1)] != 0; }
  bool empty() const;
};

// Operand shapes must broadcast to `out`.
BroadcastPlan make_broadcast_plan(const Dims& out, std::initializer_list<const Dims*> operands);

using RowOffsets = std::array<int64_t, BroadcastPlan::kMaxOperands>;

// The odometer behind for_each_row, compiled once.
void walk_rows(const BroadcastPlan& plan, void (*row)(void*, int64_t, const RowOffsets&), void* state);

// Calls row(output offset, {operand offsets}) for each inner row, in order; not at all for an empty plan.
template <typename Row>
void for_each_row(const BroadcastPlan& plan, Row&& row) {
  using R = std::remove_reference_t<Row>;
  auto call = [](void* state, int64_t out, const RowOffsets& at) { (*static_cast<R*>(state))(out, at); };
  walk_rows(plan, call, const_cast<void*>(static_cast<const void*>(&row)));
}

// 8-bit wrap-around and friends without undefined behaviour.
template <typename T>
struct WrapType {
  using type = T;
};
template <typename T>
requires std::is_integral_v<T>
struct WrapType<T> {
  using type = std::conditional_t<(sizeof(T) < 4), uint32_t, std::make_unsigned_t<T>>;
};
template <typename T>
using wrap_t = typename WrapType<T>::type;

// The float types have a second copy of each loop for AVX2, taken where the processor has it. No FMA: the
// same model gives the same bits on both.
bool cpu_has_avx2();
template <typename T>
constexpr bool kWideLoop = std::is_same_v<T, float>;

namespace pointwise_detail {

template <typename Out, typename In, typename F>
[[gnu::always_inline]] inline void unary_loop(Out* out, const In* in, int64_t n, const F& f_in) {
  const F f = f_in;  // a local copy cannot alias the output
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<Out>(f(load_as_compute(in[i])));
}
template <typename Out, typename In, typename F>
[[gnu::target("avx2"), gnu::noinline]] void unary_wide(Out* out, const In* in, int64_t n, const F& f) {
  unary_loop(out, in, n, f);
}

template <bool kMoveA, bool kMoveB, typename Out, typename A, typename B, typename F>
[[gnu::always_inline]] inline void binary_loop(Out* out, const A* a, const B* b, int64_t n, const F& f_in) {
  const F f = f_in;  // a local copy cannot alias the output
  const auto a0 = load_as_compute(a[0]);
  const auto b0 = load_as_compute(b[0]);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    out[i] = static_cast<Out>(f(kMoveA ? load_as_compute(a[i]) : a0, kMoveB ? load_as_compute(b[i]) : b0));
  }
}
template <bool kMoveA, bool kMoveB, typename Out, typename A, typename B, typename F>
[[gnu::target("avx2"), gnu::noinline]] void binary_wide(Out* out, const A* a, const B* b, int64_t n, const F& f) {
  binary_loop<kMoveA, kMoveB>(out, a, b, n, f);
}

template <bool kMoveA, bool kMoveB, typename Out, typename A, typename B, typename F>
void binary_rows(const BroadcastPlan& plan, Out* out, const A* a, const B* b, const F& f) {
  const int64_t n = plan.inner();
  [[maybe_unused]] const bool wide = cpu_has_avx2();
  for_each_row(plan, [&](int64_t o, const RowOffsets& at) {
    if constexpr (kWideLoop<A> && kWideLoop<B>) {
      if (wide) return binary_wide<kMoveA, kMoveB>(out + o, a + at[0], b + at[1], n, f);
    }
    binary_loop<kMoveA, kMoveB>(out + o, a + at[0], b + at[1], n, f);
  });
}

// Short rows of A against one row of B again and again (NHWC with few channels): B's row is laid out several
// times in a tile, so that the loops are long.
constexpr int64_t kTile = 256;

template <typename Out, typename A, typename B, typename F>
void binary_tiled(BroadcastPlan plan, Out* out, const A* a, const B* b, const F& f) {
  const int64_t n = plan.inner();
  const int64_t total = n * plan.dims[static_cast<size_t>(plan.rank - 2)];
  const int64_t chunk = kTile / n * n;
  --plan.rank;
  plan.dims[static_cast<size_t>(plan.rank - 1)] = total;
  [[maybe_unused]] const bool wide = cpu_has_avx2();
  B tile[kTile];
  for_each_row(plan, [&](int64_t o, const RowOffsets& at) {
    for (int64_t i = 0; i < chunk; ++i) tile[i] = b[at[1] + i % n];
    for (int64_t i = 0; i < total; i += chunk) {
      const int64_t count = chunk < total - i ? chunk : total - i;
      if constexpr (kWideLoop<A> && kWideLoop<B>) {
        if (wide) {
          binary_wide<true, true>(out + o + i, a + at[0] + i, tile, count, f);
          continue;
        }
      }
      binary_loop<true, true>(out + o + i, a + at[0] + i, tile, count, f);
    }
  });
}

// True when operand 0 runs on over the last two dims while operand 1 repeats a short row.
inline bool fits_tile(const BroadcastPlan& plan) {
  if (plan.rank < 2 || plan.inner() > 32) return false;
  const auto row = static_cast<size_t>(plan.rank - 2);
  return plan.moves(0) && plan.moves(1) && plan.strides[0][row] == plan.inner() && plan.strides[1][row] == 0 &&
         plan.dims[row] >= 8;
}

// One loop for every pattern: small code, for functions that do not vectorize anyway.
template <typename Out, typename A, typename B, typename F>
void binary_rows_compact(const BroadcastPlan& plan, Out* out, const A* a, const B* b, const F& f) {
  const int64_t n = plan.inner();
  const int64_t step_a = plan.moves(0) ? 1 : 0;
  const int64_t step_b = plan.moves(1) ? 1 : 0;
  for_each_row(plan, [&](int64_t o, const RowOffsets& at) {
    const A* pa = a + at[0];
    const B* pb = b + at[1];
    for (int64_t i = 0; i < n; ++i) {
      out[o + i] = static_cast<Out>(f(load_as_compute(pa[i * step_a]), load_as_compute(pb[i * step_b])));
    }
  });
}

}  // namespace pointwise_detail

// Functors with this member true are not worth vectorized copies of the loop (division, pow, fmod).
template <typename F, typename T>
constexpr bool use_compact_loop() {
  if constexpr (requires { F::template kCompact<T>; }) return F::template kCompact<T>;
  return false;
}

// out[i] = f(in[i])
template <typename Out, typename In, typename F>
void map_unary(Out* out, const In* in, int64_t n, const F& f) {
  if constexpr (kWideLoop<In>) {
    if (cpu_has_avx2()) return pointwise_detail::unary_wide(out, in, n, f);
  }
  pointwise_detail::unary_loop(out, in, n, f);
}

// out = f(a, b), both broadcast as the plan says.
template <typename Out, typename A, typename B, typename F>
void map_binary(const BroadcastPlan& plan, Out* out, const A* a, const B* b, const F& f) {
  using namespace pointwise_detail;
  if constexpr (!use_compact_loop<F, A>()) {
    if (fits_tile(plan)) return binary_tiled(plan, out, a, b, f);
    if (plan.moves(0) && plan.moves(1)) return binary_rows<true, true>(plan, out, a, b, f);
    if (plan.moves(0)) return binary_rows<true, false>(plan, out, a, b, f);
    if (plan.moves(1)) return binary_rows<false, true>(plan, out, a, b, f);
  }
  binary_rows_compact(plan, out, a, b, f);
}

// The shape of input i and of input j broadcast together.
inline Dims broadcast_pair(const EvalContext& ctx, int i = 0, int j = 1) {
  return broadcast_dims(ctx.dims(i), ctx.dims(j));
}

// evaluate for a unary op on one element type; Out is the output's type in memory.
template <typename Out, typename In, typename F>
void eval_unary(EvalContext& ctx, DType out_dtype, const F& f) {
  const TensorView out = ctx.output(0, out_dtype, ctx.dims(0));
  map_unary(out.as<Out>(), ctx.data<In>(0), out.count(), f);
}

// evaluate for a binary op with broadcasting.
template <typename Out, typename A, typename B, typename F>
void eval_binary(EvalContext& ctx, DType out_dtype, const F& f) {
  const Dims dims = broadcast_pair(ctx);
  const TensorView out = ctx.output(0, out_dtype, dims);
  const BroadcastPlan plan = make_broadcast_plan(dims, {&ctx.dims(0), &ctx.dims(1)});
  map_binary(plan, out.as<Out>(), ctx.data<A>(0), ctx.data<B>(1), f);
}

// A unary op of one floating-point type in and out: f maps compute types.
template <typename F>
OpDef float_unary_op(std::string name, F f) {
  auto infer = [name](InferContext& ctx) {
    expect_compute_float(ctx, name, 0);
    infer_like_input(ctx);
  };
  auto evaluate = [name, f](EvalContext& ctx) {
    visit_float(ctx.dtype(0), name, [&]<typename T>() { eval_unary<T, T>(ctx, ctx.dtype(0), f); });
  };
  return {.name = name, .infer = infer, .evaluate = evaluate, .pointwise = true};
}

// The same for any numeric type.
template <typename F>
OpDef numeric_unary_op(std::string name, F f) {
  auto infer = [name](InferContext& ctx) {
    expect_numeric(ctx, name, 0);
    infer_like_input(ctx);
  };
  auto evaluate = [name, f](EvalContext& ctx) {
    visit_numeric(ctx.dtype(0), name, [&]<typename T>() { eval_unary<T, T>(ctx, ctx.dtype(0), f); });
  };
  return {.name = name, .infer = infer, .evaluate = evaluate, .pointwise = true};
}

// Computes output 0's known values element by element from those of inputs 0 and 1 (a scalar repeats).
// `f` returns nothing where it cannot say; then no values are set.
void propagate_binary_values(InferContext& ctx, const std::function<std::optional<Dim>(const Dim&, const Dim&)>& f);
void propagate_unary_values(InferContext& ctx, const std::function<std::optional<Dim>(const Dim&)>& f);

}  // namespace deepjit
