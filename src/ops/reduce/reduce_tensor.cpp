// Runs a reduction over any set of axes: neighbouring axes of one kind are joined first, so the loops left
// over alternate between kept and reduced ones, and the innermost is a row or a band of columns.
#include "ops/reduce/float_sum.h"
#include "ops/reduce/reduce.h"
#include "ops/reduce/reduce_kernels.h"

namespace deepjit {

namespace {

struct Loop {
  int64_t size;
  int64_t stride;
};

// Offsets of all indices of a loop nest, outermost first; one 0 for an empty nest.
std::vector<int64_t> all_offsets(const std::vector<Loop>& loops) {
  std::vector<int64_t> offsets = {0};
  for (const Loop& loop : loops) {
    std::vector<int64_t> next;
    next.reserve(offsets.size() * static_cast<size_t>(loop.size));
    for (int64_t base : offsets) {
      for (int64_t i = 0; i < loop.size; ++i) next.push_back(base + i * loop.stride);
    }
    offsets = std::move(next);
  }
  return offsets;
}

struct Layout {
  std::vector<Loop> kept;     // outermost first; without `columns`
  std::vector<Loop> reduced;  // without `row`
  int64_t row = 0;            // the innermost loop when it is reduced, else 0
  int64_t columns = 0;        // the innermost loop when it is kept, else 0
  int64_t count = 1;          // elements that go into one output
};

Layout make_layout(const Dims& dims, const std::vector<bool>& reduced) {
  struct Group {
    int64_t size;
    bool reduced;
  };
  std::vector<Group> groups;
  Layout out;
  for (int i = 0; i < dims.rank(); ++i) {
    const bool r = reduced[static_cast<size_t>(i)];
    if (r) out.count *= dims[i];
    if (dims[i] == 1) continue;
    if (!groups.empty() && groups.back().reduced == r) {
      groups.back().size *= dims[i];
    } else {
      groups.push_back({dims[i], r});
    }
  }
  if (groups.empty()) groups.push_back({1, false});
  int64_t stride = groups.back().size;
  (groups.back().reduced ? out.row : out.columns) = stride;
  for (auto group = groups.rbegin() + 1; group != groups.rend(); ++group) {
    std::vector<Loop>& loops = group->reduced ? out.reduced : out.kept;
    loops.insert(loops.begin(), {group->size, stride});
    stride *= group->size;
  }
  return out;
}

// Calls store(output index, total) for every output. `shift` has one element an output, or is null.
template <ReduceKind K, typename T, typename F>
void run_reduction(const Layout& layout, const T* in, const double* shift, F&& store) {
  const std::vector<int64_t> kept = all_offsets(layout.kept);
  const std::vector<int64_t> inside = all_offsets(layout.reduced);
  using W = typename ReduceTypes<K, T>::Total;
  if (layout.columns == 0) {
    for (size_t o = 0; o < kept.size(); ++o) {
      W total = reduce_identity<K, W>();
      for (int64_t offset : inside) {
        const T* row = in + kept[o] + offset;
        total = reduce_combine<K>(total, reduce_row<K>(row, layout.row, shift == nullptr ? 0.0 : shift[o]));
      }
      store(static_cast<int64_t>(o), total);
    }
    return;
  }
  ColumnReducer<K, T> reducer;
  for (size_t o = 0; o < kept.size(); ++o) {
    for (int64_t begin = 0; begin < layout.columns; begin += kReduceColumns) {
      const int64_t n = std::min(kReduceColumns, layout.columns - begin);
      const int64_t first = static_cast<int64_t>(o) * layout.columns + begin;
      reducer.start(n, shift == nullptr ? nullptr : shift + first);
      for (int64_t offset : inside) reducer.add(in + kept[o] + offset + begin);
      const W* totals = reducer.finish();
      for (int64_t i = 0; i < n; ++i) store(first + i, totals[i]);
    }
  }
}

// The total as the op's result. W is uint64_t for integer sums, holding a wrapped signed value if T is signed.
template <typename T, typename W>
T finish(ReduceOp op, W total, int64_t count, double shift) {
  using C = compute_t<T>;
  double value = static_cast<double>(total);
  if constexpr (std::is_integral_v<T>) {
    if constexpr (std::is_signed_v<T> && std::is_same_v<W, uint64_t>) {
      value = static_cast<double>(static_cast<int64_t>(total));
      if (op == ReduceOp::MEAN) return count == 0 ? T(0) : static_cast<T>(static_cast<int64_t>(total) / count);
    } else if (op == ReduceOp::MEAN) {
      return count == 0 ? T(0) : static_cast<T>(static_cast<uint64_t>(total) / static_cast<uint64_t>(count));
    }
  }
  if constexpr (!std::is_integral_v<T>) value = sum_in_range<C>(value);
  switch (op) {
    case ReduceOp::MEAN:
      return static_cast<T>(static_cast<C>(value / static_cast<double>(count)));
    case ReduceOp::L2:
      return static_cast<T>(static_cast<C>(std::sqrt(value)));
    case ReduceOp::LOG_SUM:
      return static_cast<T>(static_cast<C>(std::log(value)));
    case ReduceOp::LOG_SUM_EXP:
      return static_cast<T>(static_cast<C>(std::log(value) + shift));
    default:
      return static_cast<T>(static_cast<C>(total));
  }
}

template <ReduceKind K, typename T>
void reduce_typed(ReduceOp op, const Layout& layout, const T* in, T* out) {
  run_reduction<K>(layout, in, nullptr, [&](int64_t i, auto total) { out[i] = finish<T>(op, total, layout.count, 0); });
}

// log(sum(exp(x))), shifted by the maximum so that exp cannot overflow.
template <typename T>
void log_sum_exp(const Layout& layout, const T* in, T* out, int64_t outputs) {
  std::vector<double> shift(static_cast<size_t>(outputs));
  run_reduction<ReduceKind::MAX>(layout, in, nullptr, [&](int64_t i, auto total) {
    const double highest = static_cast<double>(total);
    shift[static_cast<size_t>(i)] = std::isfinite(highest) ? highest : 0.0;
  });
  run_reduction<ReduceKind::SUM_EXP>(layout, in, shift.data(), [&](int64_t i, auto total) {
    out[i] = finish<T>(ReduceOp::LOG_SUM_EXP, total, layout.count, shift[static_cast<size_t>(i)]);
  });
}

template <typename T>
void reduce_any(ReduceOp op, const Layout& layout, const T* in, T* out, int64_t outputs) {
  switch (op) {
    case ReduceOp::SUM:
    case ReduceOp::MEAN:
    case ReduceOp::LOG_SUM:
      return reduce_typed<ReduceKind::SUM>(op, layout, in, out);
    case ReduceOp::L1:
      return reduce_typed<ReduceKind::SUM_ABS>(op, layout, in, out);
    case ReduceOp::L2:
    case ReduceOp::SUM_SQUARE:
      return reduce_typed<ReduceKind::SUM_SQUARE>(op, layout, in, out);
    case ReduceOp::PROD:
      return reduce_typed<ReduceKind::PROD>(op, layout, in, out);
    case ReduceOp::MAX:
      return reduce_typed<ReduceKind::MAX>(op, layout, in, out);
    case ReduceOp::MIN:
      return reduce_typed<ReduceKind::MIN>(op, layout, in, out);
    case ReduceOp::LOG_SUM_EXP:
      return log_sum_exp(layout, in, out, outputs);
  }
}

}  // namespace

void reduce_tensor(ReduceOp op, const TensorView& in, const std::vector<bool>& reduced, const TensorView& out) {
  const int64_t outputs = out.count();
  if (outputs == 0) return;
  const Layout layout = make_layout(in.dims, reduced);
  if (in.dtype == DType::BOOL) {
    // The highest bool is 1, not the highest byte.
    if (layout.count == 0) return std::fill_n(out.as<uint8_t>(), outputs, op == ReduceOp::MIN ? 1 : 0), void();
    return reduce_any<uint8_t>(op, layout, in.as<uint8_t>(), out.as<uint8_t>(), outputs);
  }
  visit_numeric(in.dtype, "Reduce", [&]<typename T>() { reduce_any<T>(op, layout, in.as<T>(), out.as<T>(), outputs); });
}

}  // namespace deepjit
