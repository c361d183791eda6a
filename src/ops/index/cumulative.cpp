// CumSum and CumProd. float16 and bfloat16 accumulate in float, float32 in double; integers wrap around.
#include "base/visit.h"
#include "ops/common.h"
#include "ops/index/sort.h"

namespace deepjit {

namespace {

template <typename T>
struct Accumulator {
  using type = std::conditional_t<std::is_integral_v<T>, uint64_t, T>;
};
template <>
struct Accumulator<float> {
  using type = double;
};
template <>
struct Accumulator<float16> {
  using type = float;
};
template <>
struct Accumulator<bfloat16> {
  using type = float;
};

int cumulative_axis(int64_t axis, int rank) { return normalize_axis(axis, rank, "CumSum or CumProd: axis"); }

void infer_cumulative(InferContext& ctx) {
  expect_numeric(ctx, "CumSum or CumProd", 0);
  const auto axis = ctx.constant_ints(1);
  if (axis && axis->size() == 1 && ctx.shape(0).ranked()) cumulative_axis(axis->front(), ctx.shape(0).rank());
  infer_like_input(ctx);
}

template <bool kProduct>
void evaluate_cumulative(EvalContext& ctx) {
  const TensorView& in = ctx.input(0);
  const std::vector<int64_t> axis = ctx.ints(1);
  if (axis.size() != 1) throw Error(Code::SHAPE_MISMATCH, "CumSum or CumProd: axis must be one number");
  const AxisView view = axis_view(in.dims, cumulative_axis(axis[0], in.dims.rank()));
  const bool exclusive = ctx.attrs().get_int("exclusive", 0) != 0;
  const bool reverse = ctx.attrs().get_int("reverse", 0) != 0;
  const TensorView out = ctx.output(0, in.dtype, in.dims);
  visit_numeric(in.dtype, kProduct ? "CumProd" : "CumSum", [&]<typename T>() {
    using A = typename Accumulator<T>::type;
    std::vector<A> total(static_cast<size_t>(view.inner));
    for (int64_t o = 0; o < view.outer; ++o) {
      std::fill(total.begin(), total.end(), static_cast<A>(kProduct ? 1 : 0));
      for (int64_t j = 0; j < view.size; ++j) {
        const int64_t at = (o * view.size + (reverse ? view.size - 1 - j : j)) * view.inner;
        const T* from = in.as<T>() + at;
        T* to = out.as<T>() + at;
        for (int64_t i = 0; i < view.inner; ++i) {
          const A before = total[static_cast<size_t>(i)];
          const A value = static_cast<A>(load_as_compute(from[i]));
          const A after = kProduct ? before * value : before + value;
          total[static_cast<size_t>(i)] = after;
          to[i] = static_cast<T>(static_cast<compute_t<T>>(exclusive ? before : after));
        }
      }
    }
  });
}

}  // namespace

void add_scan_ops(OpRegistry& registry) {
  registry.add({.name = "CumSum",
                .min_inputs = 2,
                .max_inputs = 2,
                .infer = infer_cumulative,
                .evaluate = evaluate_cumulative<false>});
  registry.add({.name = "CumProd",
                .min_inputs = 2,
                .max_inputs = 2,
                .infer = infer_cumulative,
                .evaluate = evaluate_cumulative<true>});
}

}  // namespace deepjit
