// Comparing and describing tensors' values.
#pragma once

#include <string>
#include <vector>

#include "base/tensor.h"
#include "ops/sequence/sequence.h"

namespace deepjit::cli {

// The largest difference, relative to the largest finite magnitude in `expected` (at least 1e-30). Floating
// point: NaN equals NaN and an infinity its equal; anything else non-finite, and other shapes or types, is an
// error of kDifferent. Other types are 0 when all elements are equal, else kDifferent. Of sequences and optionals, the
// worst element's.
constexpr double kDifferent = 1e30;
double relative_error(const TensorView& actual, const TensorView& expected);

struct Summary {
  double min = 0, max = 0, mean = 0;  // over finite elements
  int64_t not_finite = 0;
};
// Of a numeric tensor.
Summary summarize(const TensorView& view);

// The values at these percentiles (0 to 100) by the nearest rank. Sorts `samples`, which must not be empty.
std::vector<double> percentiles(std::vector<double>& samples, const std::vector<double>& at);

}  // namespace deepjit::cli
