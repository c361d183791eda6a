// Element type conversion for all families.
#pragma once

#include "base/small_types.h"
#include "base/tensor.h"

namespace deepjit {

// Where rounding to small floats has a choice.
struct CastRounding {
  bool saturate = true;
  E8m0Round e8m0 = E8m0Round::UP;
};

// Converts every element as ONNX's Cast does; both views have one shape.
void cast_elements(const TensorView& in, const TensorView& out, CastRounding rounding = {});

// cast_strings.cpp. Numbers as text that reads back to the same number: "3", "0.5", "1e+20", "NaN", "INF", "-INF",
// "True"; and text as numbers, with blanks around them allowed. Throws Error(RUN_VALUE) for text that is none.
void print_numbers(const TensorView& in, const TensorView& out);
void parse_numbers(const TensorView& in, const TensorView& out, CastRounding rounding);

}  // namespace deepjit
