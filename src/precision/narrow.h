// float32 constants as 16-bit ones, and whether they lose too much.
#pragma once

#include <string>

#include "base/tensor.h"

namespace deepjit {

// The largest finite number of float16 or bfloat16.
double largest_of(DType type);
// The smallest normal number of float16 or bfloat16.
double smallest_of(DType type);
// The largest relative error of rounding to it.
double roundoff_of(DType type);

struct Narrowed {
  Tensor tensor;             // of the 16-bit type; values beyond it are infinite there
  double largest = 0;        // magnitude, of finite elements
  bool overflows = false;    // a finite element is beyond the type
  double relative_loss = 0;  // of all elements together: the length of the error by the length of the tensor
  bool vanishes = false;     // the loss is several times what rounding alone does: elements fall to zero or near it
};

Narrowed narrow(const Tensor& tensor, DType type);

// For people: "-3.40e+38 does not fit float16", "loses 12% of its value in float16"; empty when nothing is wrong.
std::string what_is_lost(const Narrowed& narrowed, DType type);

}  // namespace deepjit
