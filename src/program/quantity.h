// A size known at launch: factor * product of dims. A dim is (operand, axis); the operands of a step are its inputs,
// then its outputs. Dims are sorted, so equal quantities look equal.
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <vector>

#include "base/types.h"

namespace deepjit {

struct Quantity {
  struct Factor {
    int16_t operand;
    int16_t axis;
    auto operator<=>(const Factor&) const = default;
  };
  int64_t factor = 1;
  std::vector<Factor> dims;

  bool is_const() const { return dims.empty() || factor == 0; }
  bool operator==(const Quantity& other) const {
    if (factor == 0 || other.factor == 0) return factor == other.factor;
    return factor == other.factor && dims == other.dims;
  }
};

inline Quantity operator*(const Quantity& a, const Quantity& b) {
  Quantity out;
  out.factor = checked_mul(a.factor, b.factor);
  if (out.factor == 0) return out;
  out.dims = a.dims;
  out.dims.insert(out.dims.end(), b.dims.begin(), b.dims.end());
  std::sort(out.dims.begin(), out.dims.end());
  return out;
}

}  // namespace deepjit
