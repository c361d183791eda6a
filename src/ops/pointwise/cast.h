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

// Converts every element as ONNX's Cast does; both views have one shape. Not for strings.
void cast_elements(const TensorView& in, const TensorView& out, CastRounding rounding = {});

}  // namespace deepjit
