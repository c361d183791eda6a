#include "base/float8.h"

#include <cmath>
#include <limits>

namespace deepjit {

namespace {

struct Format {
  int mantissa_bits;
  int bias;
  uint8_t largest;     // bits of the largest finite magnitude
  bool has_infinity;   // E5M2 only
  bool unsigned_zero;  // the FNUZ formats: 0x80 is NaN, there is no -0
  uint8_t nan;         // for a positive NaN
};

Format format_of(DType dtype) {
  switch (dtype) {
    case DType::FLOAT8E4M3FN:
      return {3, 7, 0x7e, false, false, 0x7f};
    case DType::FLOAT8E4M3FNUZ:
      return {3, 8, 0x7f, false, true, 0x80};
    case DType::FLOAT8E5M2:
      return {2, 15, 0x7b, true, false, 0x7f};
    case DType::FLOAT8E5M2FNUZ:
      return {2, 16, 0x7f, false, true, 0x80};
    default:
      throw Error(Code::INTERNAL, "not a float8 type");
  }
}

// The magnitude that `bits` (sign removed, not special) stands for.
float magnitude_of(const Format& f, uint8_t bits) {
  const int exponent = bits >> f.mantissa_bits;
  const int mantissa = bits & ((1 << f.mantissa_bits) - 1);
  if (exponent == 0) return std::ldexp(static_cast<float>(mantissa), 1 - f.bias - f.mantissa_bits);
  return std::ldexp(static_cast<float>(mantissa + (1 << f.mantissa_bits)), exponent - f.bias - f.mantissa_bits);
}

}  // namespace

float float8_to_float(DType dtype, uint8_t bits) {
  const Format f = format_of(dtype);
  const bool negative = (bits & 0x80) != 0;
  const uint8_t magnitude = bits & 0x7f;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  if (f.unsigned_zero && bits == 0x80) return nan;
  if (!f.unsigned_zero && magnitude > f.largest) {
    const bool infinite = f.has_infinity && magnitude == 0x7c;
    const float special = infinite ? std::numeric_limits<float>::infinity() : nan;
    return negative ? -special : special;
  }
  const float value = magnitude_of(f, magnitude);
  return negative ? -value : value;
}

uint8_t float_to_float8(DType dtype, float value, bool saturate) {
  const Format f = format_of(dtype);
  const uint8_t sign = std::signbit(value) ? 0x80 : 0;
  const auto signed_bits = [&](uint8_t magnitude) -> uint8_t {
    if (f.unsigned_zero && magnitude == 0) return 0;
    return static_cast<uint8_t>(sign | magnitude);
  };
  const auto not_a_number = [&]() -> uint8_t { return f.unsigned_zero ? 0x80 : static_cast<uint8_t>(sign | f.nan); };
  if (std::isnan(value)) return not_a_number();
  const auto overflow = [&]() -> uint8_t {
    if (saturate) return signed_bits(f.largest);
    return f.has_infinity ? static_cast<uint8_t>(sign | 0x7c) : not_a_number();
  };
  if (std::isinf(value)) return overflow();

  const float magnitude = std::fabs(value);
  if (magnitude == 0) return signed_bits(0);
  // The spacing of the format's numbers around `magnitude`, as a power of two.
  int exponent = 0;
  std::frexp(magnitude, &exponent);  // magnitude = m * 2^exponent, m in [0.5, 1)
  const int lowest = 1 - f.bias;
  const int top = exponent - 1 < lowest ? lowest : exponent - 1;
  const float units = std::nearbyint(std::ldexp(magnitude, f.mantissa_bits - top));  // exact scaling; ties to even
  // A count of units above 2^mantissa_bits carries into the exponent by itself.
  const int64_t bits = static_cast<int64_t>(units) + (static_cast<int64_t>(top - lowest) << f.mantissa_bits);
  if (bits > f.largest) return overflow();
  return signed_bits(static_cast<uint8_t>(bits));
}

}  // namespace deepjit
