// Element type conversion for all families.
#pragma once

#include "base/tensor.h"

namespace deepjit {

// Converts every element as ONNX's Cast does; both views have one shape. `saturate` matters for float8.
// Not for strings.
void cast_elements(const TensorView& in, const TensorView& out, bool saturate = true);

}  // namespace deepjit
