// Small helpers that many op families share: type checks, symbolic broadcast, plain copies.
#pragma once

#include <string_view>

#include "base/broadcast.h"
#include "ops/op.h"

namespace deepjit {

// Throws Error(TYPE) unless input i has the element type of input j.
void expect_same_type(const InferContext& ctx, std::string_view op, int i, int j);
// Throws Error(TYPE) saying what was expected unless `ok`.
void expect_type(const InferContext& ctx, std::string_view op, int i, bool ok, std::string_view expected);
// The usual classes: what arithmetic is defined on, so neither packed types nor small floats (small_types.h).
bool is_numeric(DType dtype);
bool is_compute_float(DType dtype);  // float16, bfloat16, float32, float64
void expect_numeric(const InferContext& ctx, std::string_view op, int i);
void expect_compute_float(const InferContext& ctx, std::string_view op, int i);
void expect_integer(const InferContext& ctx, std::string_view op, int i);

// The element type an integer attribute names (Cast's `to`), or `fallback` when it is absent.
// Throws Error(ATTRIBUTE) for a number that is no supported element type.
DType dtype_attribute(const Attributes& attrs, const std::string& name, DType fallback);

// Multidirectional broadcast. Two dims that may or may not be equal give a fresh dim; unranked gives unranked.
// Throws Error(SHAPE_MISMATCH).
Shape broadcast_shapes(InferContext& ctx, const Shape& a, const Shape& b);
// All inputs from `first` on, broadcast together.
Shape broadcast_inputs(InferContext& ctx, int first = 0);

// True when the expression cannot be negative, whatever its symbols are. May miss cases.
inline bool known_nonnegative(const Dim& dim) { return dim.lower_bound().value_or(-1) >= 0; }

// Output 0 has the type and shape of input 0.
void infer_like_input(InferContext& ctx);

// Copies all elements (strings too); nothing to do when both are the same memory.
void copy_elements(const TensorView& from, const TensorView& to);

// Values known for input i, else nullptr (also for an omitted input).
const std::vector<Dim>* known_values(const InferContext& ctx, int i);
// Output 0's values are those of input i, when they are known.
void forward_values(InferContext& ctx, int i);

}  // namespace deepjit
