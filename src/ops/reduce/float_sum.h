// Sums are added up in double for their digits, and have the range of the type they stand for: what a float32 sum
// cannot hold is infinity, as in every kernel and in ONNX, which computes statistics in float32.
#pragma once

#include <cmath>
#include <limits>

namespace deepjit {

template <typename C>
double sum_in_range(double sum) {
  if (std::abs(sum) <= static_cast<double>(std::numeric_limits<C>::max())) return sum;
  return sum * std::numeric_limits<double>::infinity();  // of its sign; NaN stays
}

}  // namespace deepjit
