// Lets a reference compute in float or double whatever the tensors' floating-point type: inputs are widened
// into scratch memory, outputs are narrowed from it once at the end. No copy when the types agree.
#pragma once

#include <type_traits>

#include "base/visit.h"
#include "ops/op.h"

namespace deepjit {

// Calls f with double for FLOAT64 and float for the other floating-point types.
template <typename F>
void visit_compute(DType dtype, std::string_view what, F&& f) {
  visit_float(dtype, what, [&]<typename T>() { f.template operator()<compute_t<T>>(); });
}

// Scratch memory for `count` elements.
template <typename T>
T* scratch_array(EvalContext& ctx, int64_t count) {
  return static_cast<T*>(ctx.scratch(static_cast<size_t>(checked_mul(count, static_cast<int64_t>(sizeof(T))))));
}

// The elements of a floating-point tensor as C.
template <typename C>
const C* read_compute(EvalContext& ctx, const TensorView& view) {
  const C* out = nullptr;
  visit_float(view.dtype, "input", [&]<typename T>() {
    if constexpr (std::is_same_v<T, C>) {
      out = view.as<T>();
    } else {
      const int64_t n = view.count();
      C* buffer = scratch_array<C>(ctx, n);
      for (int64_t i = 0; i < n; ++i) buffer[i] = static_cast<C>(static_cast<compute_t<T>>(view.as<T>()[i]));
      out = buffer;
    }
  });
  return out;
}
template <typename C>
const C* read_compute(EvalContext& ctx, int i) {
  return read_compute<C>(ctx, ctx.input(i));
}
// nullptr for an omitted input.
template <typename C>
const C* read_optional(EvalContext& ctx, int i) {
  return ctx.has_input(i) ? read_compute<C>(ctx, i) : nullptr;
}

// Output i, written as C. Call finish() after the last write.
template <typename C>
class ComputeOutput {
 public:
  ComputeOutput(EvalContext& ctx, int i, DType dtype, const Dims& dims) : out_(ctx.output(i, dtype, dims)) {
    constexpr DType kOwn = std::is_same_v<C, double> ? DType::FLOAT64 : DType::FLOAT32;
    compute_ = out_;
    if (dtype == kOwn) return;
    compute_.dtype = kOwn;
    compute_.data = scratch_array<C>(ctx, out_.count());
  }
  C* data() const { return compute_.as<C>(); }
  // The values as a float or double tensor, before narrowing.
  const TensorView& view() const { return compute_; }
  void finish() {
    visit_float(out_.dtype, "output", [&]<typename T>() {
      if constexpr (!std::is_same_v<T, C>) {
        const int64_t n = out_.count();
        for (int64_t i = 0; i < n; ++i) out_.as<T>()[i] = static_cast<T>(static_cast<compute_t<T>>(data()[i]));
      }
    });
  }

 private:
  TensorView out_;
  TensorView compute_;
};

}  // namespace deepjit
