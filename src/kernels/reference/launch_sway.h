// Moves floating-point values by a few units in their last place, at random: what rounding might have made of them.
//
// A region that runs so a few times shows how far its results depend on rounding (the CESTAC method: J. Vignes, A
// stochastic arithmetic for reliable scientific computation, 1993). Zeros, infinities, NaN and 16-bit values stay.
#pragma once

#include <cstdint>

#include "base/tensor.h"

namespace deepjit {

class Sway {
 public:
  explicit Sway(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 1) {}
  void move(const TensorView& values);

 private:
  // In [-1, 1].
  double draw();
  template <typename T>
  void move_each(T* values, int64_t count);

  uint64_t state_;
};

}  // namespace deepjit
