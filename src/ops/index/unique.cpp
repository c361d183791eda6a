// Unique: the distinct elements, or the distinct slices along an axis. NaNs count as equal and sort last.
#include <algorithm>
#include <numeric>

#include "base/small_types.h"
#include "ops/common.h"
#include "ops/index/index.h"
#include "ops/shape/strided_copy.h"

namespace deepjit {

namespace {

void infer_unique(InferContext& ctx) {
  const DType dtype = ctx.dtype(0);
  expect_type(ctx, "Unique", 0, !is_small_float(dtype) && (dtype_size(dtype) > 0 || dtype == DType::STRING),
              "a tensor of numbers or strings");
  const Dim count = ctx.fresh_dim();
  const Shape& in = ctx.shape(0);
  Shape values({count});
  Dim positions = in.ranked() ? in.count() : ctx.fresh_dim();
  if (ctx.attrs().has("axis")) {
    values = in;
    if (in.ranked()) {
      const int axis = normalize_axis(ctx.attrs().get_int("axis", 0), in.rank(), "Unique: axis");
      positions = in[axis];
      values[axis] = count;
    }
  }
  ctx.set_output(0, ctx.dtype(0), values);
  for (int i = 1; i < ctx.num_outputs(); ++i) ctx.set_output(i, DType::INT64, Shape({i == 2 ? positions : count}));
}

// A total order: -1, 0 or 1.
template <typename T>
int order(const T& a, const T& b) {
  if constexpr (std::is_same_v<T, std::string>) {
    return a < b ? -1 : b < a ? 1 : 0;
  } else {
    const auto x = load_as_compute(a);
    const auto y = load_as_compute(b);
    if (x < y) return -1;
    if (y < x) return 1;
    return static_cast<int>(x != x) - static_cast<int>(y != y);
  }
}

// Slices of `run` elements, `count` of them, grouped by equality.
struct Groups {
  std::vector<int64_t> first;    // per group, its first slice
  std::vector<int64_t> inverse;  // per slice, its group
  std::vector<int64_t> counts;   // per group, its slices
};

template <typename T>
Groups group_slices(const T* data, int64_t count, int64_t run, bool sorted) {
  const auto compare = [&](int64_t a, int64_t b) {
    for (int64_t j = 0; j < run; ++j) {
      const int c = order(data[a * run + j], data[b * run + j]);
      if (c != 0) return c;
    }
    return 0;
  };
  std::vector<int64_t> by_value(static_cast<size_t>(count));
  std::iota(by_value.begin(), by_value.end(), 0);
  std::stable_sort(by_value.begin(), by_value.end(), [&](int64_t a, int64_t b) { return compare(a, b) < 0; });
  Groups groups;
  groups.inverse.resize(by_value.size());
  for (size_t i = 0; i < by_value.size(); ++i) {
    if (i == 0 || compare(by_value[i - 1], by_value[i]) != 0) {
      groups.first.push_back(by_value[i]);
      groups.counts.push_back(0);
    }
    ++groups.counts.back();
    groups.inverse[static_cast<size_t>(by_value[i])] = static_cast<int64_t>(groups.first.size()) - 1;
  }
  if (sorted) return groups;
  // Renumber the groups by first occurrence.
  std::vector<size_t> by_first(groups.first.size());
  std::iota(by_first.begin(), by_first.end(), size_t{0});
  std::sort(by_first.begin(), by_first.end(), [&](size_t a, size_t b) { return groups.first[a] < groups.first[b]; });
  Groups out;
  std::vector<int64_t> renumbered(by_first.size());
  for (size_t i = 0; i < by_first.size(); ++i) {
    renumbered[by_first[i]] = static_cast<int64_t>(i);
    out.first.push_back(groups.first[by_first[i]]);
    out.counts.push_back(groups.counts[by_first[i]]);
  }
  for (int64_t g : groups.inverse) out.inverse.push_back(renumbered[static_cast<size_t>(g)]);
  return out;
}

// The view with `axis` moved to the front, made dense.
Tensor axis_first(const TensorView& in, int axis) {
  Dims dims{in.dims[axis]};
  const Dims from = in.dims.strides();
  Dims strides{from[axis]};
  for (int i = 0; i < in.dims.rank(); ++i) {
    if (i == axis) continue;
    dims.push_back(in.dims[i]);
    strides.push_back(from[i]);
  }
  Tensor out(in.dtype, dims);
  copy_view(in, 0, strides, out.view());
  return out;
}

template <typename T>
void unique(EvalContext& ctx) {
  const TensorView& in = ctx.input(0);
  const bool sorted = ctx.attrs().get_int("sorted", 1) != 0;
  const bool has_axis = ctx.attrs().has("axis");
  Dims dims = has_axis ? in.dims : Dims{in.count()};
  const int axis = normalize_axis(ctx.attrs().get_int("axis", 0), dims.rank(), "Unique: axis");
  const int64_t count = dims[axis];
  const int64_t outer = count_range(dims, 0, axis);
  const int64_t inner = count_range(dims, axis + 1, dims.rank());
  const Tensor moved = axis == 0 ? Tensor() : axis_first(in, axis);
  const Groups groups = group_slices<T>(axis == 0 ? in.as<T>() : moved.as<T>(), count, outer * inner, sorted);
  const auto found = static_cast<int64_t>(groups.first.size());
  dims[axis] = found;
  if (ctx.has_output(0)) {
    T* to = ctx.output(0, in.dtype, dims).as<T>();
    for (int64_t o = 0; o < outer; ++o) {
      for (int64_t slice : groups.first) {
        copy_run(in.as<T>() + (o * count + slice) * inner, to, inner);
        to += inner;
      }
    }
  }
  const std::vector<int64_t>* lists[] = {&groups.first, &groups.inverse, &groups.counts};
  for (int i = 1; i < 4; ++i) {
    if (i >= ctx.num_outputs() || !ctx.has_output(i)) continue;
    const std::vector<int64_t>& list = *lists[i - 1];
    copy_run(list.data(), ctx.output(i, DType::INT64, {static_cast<int64_t>(list.size())}).as<int64_t>(),
             static_cast<int64_t>(list.size()));
  }
}

void evaluate_unique(EvalContext& ctx) {
  const DType dtype = ctx.dtype(0);
  if (dtype == DType::STRING) return unique<std::string>(ctx);
  if (dtype == DType::BOOL) return unique<uint8_t>(ctx);
  visit_numeric(dtype, "Unique", [&]<typename T>() { unique<T>(ctx); });
}

}  // namespace

void add_unique_ops(OpRegistry& registry) {
  registry.add({.name = "Unique", .max_outputs = 4, .infer = infer_unique, .evaluate = evaluate_unique});
}

}  // namespace deepjit
