#include "ops/pointwise/pointwise.h"

namespace deepjit {

bool BroadcastPlan::empty() const {
  for (int d = 0; d < rank; ++d) {
    if (dims[static_cast<size_t>(d)] == 0) return true;
  }
  return false;
}

BroadcastPlan make_broadcast_plan(const Dims& out, std::initializer_list<const Dims*> operands) {
  const size_t n = operands.size();
  check_internal(n <= BroadcastPlan::kMaxOperands, "too many operands for a broadcast plan");
  std::array<Dims, BroadcastPlan::kMaxOperands> strides;
  for (size_t k = 0; k < n; ++k) strides[k] = (*operands.begin()[k]).strides();

  BroadcastPlan plan;
  for (int d = 0; d < out.rank(); ++d) {
    if (out[d] == 1) continue;
    std::array<int64_t, BroadcastPlan::kMaxOperands> step{};
    for (size_t k = 0; k < n; ++k) {
      const Dims& shape = *operands.begin()[k];
      const int own = d - (out.rank() - shape.rank());
      step[k] = own >= 0 && shape[own] != 1 ? strides[k][own] : 0;
    }
    bool merge = plan.rank > 0;
    const size_t last = static_cast<size_t>(plan.rank > 0 ? plan.rank - 1 : 0);
    for (size_t k = 0; k < n && merge; ++k) merge = plan.strides[k][last] == step[k] * out[d];
    const size_t at = merge ? last : static_cast<size_t>(plan.rank++);
    plan.dims[at] = (merge ? plan.dims[at] : 1) * out[d];
    for (size_t k = 0; k < n; ++k) plan.strides[k][at] = step[k];
  }
  if (plan.rank == 0) plan.dims[static_cast<size_t>(plan.rank++)] = 1;
  return plan;
}

void walk_rows(const BroadcastPlan& plan, void (*row)(void*, int64_t, const RowOffsets&), void* state) {
  if (plan.empty()) return;
  std::array<int64_t, kMaxRank> index{};
  RowOffsets at{};
  int64_t out = 0;
  while (true) {
    row(state, out, at);
    out += plan.inner();
    int d = plan.rank - 2;
    for (; d >= 0; --d) {
      const auto u = static_cast<size_t>(d);
      for (size_t k = 0; k < at.size(); ++k) at[k] += plan.strides[k][u];
      if (++index[u] < plan.dims[u]) break;
      for (size_t k = 0; k < at.size(); ++k) at[k] -= plan.strides[k][u] * plan.dims[u];
      index[u] = 0;
    }
    if (d < 0) return;
  }
}

bool cpu_has_avx2() {
  static const bool has = __builtin_cpu_supports("avx2") != 0;
  return has;
}

namespace {

// Where sums or products of known values overflow, or wrap around in int32, they are simply not known.
template <typename F>
void set_values_unless_overflow(InferContext& ctx, size_t n, F&& element) {
  const DType dtype = ctx.dtype(0);
  if (dtype != DType::INT64 && dtype != DType::INT32 && dtype != DType::BOOL) return;
  std::vector<Dim> out;
  try {
    for (size_t i = 0; i < n; ++i) {
      std::optional<Dim> value = element(i);
      if (!value) return;
      const bool wraps =
          dtype == DType::INT32 && value->is_const() && value->value() != static_cast<int32_t>(value->value());
      if (wraps) return;
      out.push_back(std::move(*value));
    }
  } catch (const Error& e) {
    if (e.code() != Code::SHAPE_OVERFLOW) throw;
    return;
  }
  ctx.set_output_values(0, std::move(out));
}

}  // namespace

void propagate_binary_values(InferContext& ctx, const std::function<std::optional<Dim>(const Dim&, const Dim&)>& f) {
  const std::vector<Dim>* a = known_values(ctx, 0);
  const std::vector<Dim>* b = known_values(ctx, 1);
  if (a == nullptr || b == nullptr || (a->size() != b->size() && a->size() != 1 && b->size() != 1)) return;
  const size_t n = a->size() == 1 ? b->size() : a->size();
  set_values_unless_overflow(ctx, n,
                             [&](size_t i) { return f((*a)[a->size() == 1 ? 0 : i], (*b)[b->size() == 1 ? 0 : i]); });
}

void propagate_unary_values(InferContext& ctx, const std::function<std::optional<Dim>(const Dim&)>& f) {
  const std::vector<Dim>* a = known_values(ctx, 0);
  if (a == nullptr) return;
  set_values_unless_overflow(ctx, a->size(), [&](size_t i) { return f((*a)[i]); });
}

}  // namespace deepjit
