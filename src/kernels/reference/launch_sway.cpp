#include "kernels/reference/launch_sway.h"

#include <cmath>
#include <limits>

namespace deepjit {

namespace {

constexpr double kUnits = 4;  // as much as an elementary function of generated code may be off

}  // namespace

double Sway::draw() {  // xorshift64*
  state_ ^= state_ >> 12;
  state_ ^= state_ << 25;
  state_ ^= state_ >> 27;
  const uint64_t bits = (state_ * 0x2545f4914f6cdd1du) >> 11;
  return static_cast<double>(bits) * 0x1p-52 - 1;
}

template <typename T>
void Sway::move_each(T* values, int64_t count) {
  constexpr double kStep = kUnits * static_cast<double>(std::numeric_limits<T>::epsilon());
  for (int64_t i = 0; i < count; ++i) {
    const T moved = static_cast<T>(static_cast<double>(values[i]) * (1 + draw() * kStep));
    if (std::isfinite(moved)) values[i] = moved;
  }
}

void Sway::move(const TensorView& values) {
  if (values.dtype == DType::FLOAT32) move_each(static_cast<float*>(values.data), values.dims.count());
  if (values.dtype == DType::FLOAT64) move_each(static_cast<double*>(values.data), values.dims.count());
}

}  // namespace deepjit
