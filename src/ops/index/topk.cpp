// TopK. Of equal values the one with the lower index comes first; a NaN counts as the largest value.
#include <algorithm>

#include "base/visit.h"
#include "ops/common.h"
#include "ops/index/sort.h"

namespace deepjit {

namespace {

[[noreturn]] void throw_bad_k(int64_t k, int64_t size) {
  throw Error(Code::RUN_VALUE, "TopK: k = " + std::to_string(k) + " is out of range [0, " + std::to_string(size) + "]");
}

void infer_topk(InferContext& ctx) {
  expect_numeric(ctx, "TopK", 0);
  Shape out = ctx.shape(0);
  if (out.ranked()) {
    Dim& dim = out[normalize_axis(ctx.attrs().get_int("axis", -1), out.rank(), "TopK: axis")];
    const std::vector<Dim>* k = known_values(ctx, 1);
    if (k != nullptr && k->size() == 1) {
      const bool fixed = k->front().is_const();
      if (fixed && k->front().value() < 0) throw_bad_k(k->front().value(), 0);
      if (fixed && dim.is_const() && k->front().value() > dim.value()) throw_bad_k(k->front().value(), dim.value());
      dim = k->front();
    } else {
      dim = ctx.fresh_dim();
    }
  }
  ctx.set_output(0, ctx.dtype(0), out);
  ctx.set_output(1, DType::INT64, out);
}

template <typename C>
struct Entry {
  C value;
  int64_t index;
};

template <typename C>
bool larger(C a, C b) {
  if constexpr (std::is_floating_point_v<C>) {
    if (a != a || b != b) return a != a && !(b != b);
  }
  return a > b;
}

template <typename T, bool kLargest>
void top_of_rows(const AxisView& view, int64_t k, const T* in, T* values, int64_t* indices) {
  using C = compute_t<T>;
  std::vector<Entry<C>> row(static_cast<size_t>(view.size));
  const auto before = [](const Entry<C>& a, const Entry<C>& b) {
    if (kLargest ? larger(a.value, b.value) : larger(b.value, a.value)) return true;
    if (kLargest ? larger(b.value, a.value) : larger(a.value, b.value)) return false;
    return a.index < b.index;
  };
  const auto middle = row.begin() + k;
  for (int64_t o = 0; o < view.outer; ++o) {
    for (int64_t i = 0; i < view.inner; ++i) {
      const T* from = in + o * view.size * view.inner + i;
      for (int64_t j = 0; j < view.size; ++j) {
        row[static_cast<size_t>(j)] = {static_cast<C>(from[j * view.inner]), j};
      }
      if (k * 8 < view.size) {
        std::partial_sort(row.begin(), middle, row.end(), before);
      } else {
        if (middle != row.end()) std::nth_element(row.begin(), middle, row.end(), before);
        std::sort(row.begin(), middle, before);
      }
      const int64_t at = o * k * view.inner + i;
      for (int64_t j = 0; j < k; ++j) {
        const Entry<C>& entry = row[static_cast<size_t>(j)];
        if (values != nullptr) values[at + j * view.inner] = from[entry.index * view.inner];
        if (indices != nullptr) indices[at + j * view.inner] = entry.index;
      }
    }
  }
}

void evaluate_topk(EvalContext& ctx) {
  const TensorView& in = ctx.input(0);
  const int axis = normalize_axis(ctx.attrs().get_int("axis", -1), in.dims.rank(), "TopK: axis");
  const std::vector<int64_t> k_values = ctx.ints(1);
  if (k_values.size() != 1) throw Error(Code::SHAPE_MISMATCH, "TopK: k must have one element");
  const int64_t k = k_values[0];
  const AxisView view = axis_view(in.dims, axis);
  if (k < 0 || k > view.size) throw_bad_k(k, view.size);
  Dims dims = in.dims;
  dims[axis] = k;
  void* values = ctx.has_output(0) ? ctx.output(0, in.dtype, dims).data : nullptr;
  auto* indices = ctx.has_output(1) ? ctx.output(1, DType::INT64, dims).as<int64_t>() : nullptr;
  if (dims.count() == 0) return;
  const bool largest = ctx.attrs().get_int("largest", 1) != 0;
  visit_numeric(in.dtype, "TopK", [&]<typename T>() {
    if (largest) {
      top_of_rows<T, true>(view, k, in.as<T>(), static_cast<T*>(values), indices);
    } else {
      top_of_rows<T, false>(view, k, in.as<T>(), static_cast<T*>(values), indices);
    }
  });
}

}  // namespace

void add_topk_ops(OpRegistry& registry) {
  registry.add({.name = "TopK",
                .min_inputs = 2,
                .max_inputs = 2,
                .min_outputs = 1,
                .max_outputs = 2,
                .infer = infer_topk,
                .evaluate = evaluate_topk,
                .shape_inputs = {1}});
}

}  // namespace deepjit
