#include "base/small_types.h"

#include <cmath>
#include <limits>

namespace deepjit {

namespace {

struct Format {
  int mantissa_bits;
  int bias;
  uint8_t sign;        // the sign bit
  uint8_t largest;     // bits of the largest finite magnitude
  bool has_infinity;   // E5M2 only
  bool unsigned_zero;  // the FNUZ formats: 0x80 is NaN, there is no -0
  uint8_t nan;         // for a positive NaN; 0 where there is none
};

Format format_of(DType dtype) {
  switch (dtype) {
    case DType::FLOAT8E4M3FN:
      return {3, 7, 0x80, 0x7e, false, false, 0x7f};
    case DType::FLOAT8E4M3FNUZ:
      return {3, 8, 0x80, 0x7f, false, true, 0x80};
    case DType::FLOAT8E5M2:
      return {2, 15, 0x80, 0x7b, true, false, 0x7f};
    case DType::FLOAT8E5M2FNUZ:
      return {2, 16, 0x80, 0x7f, false, true, 0x80};
    case DType::FLOAT4E2M1:
      return {1, 1, 0x08, 0x07, false, false, 0};
    default:
      throw Error(Code::INTERNAL, "not a small float type");
  }
}

// The magnitude that `bits` (sign removed, not special) stands for.
float magnitude_of(const Format& f, uint8_t bits) {
  const int exponent = bits >> f.mantissa_bits;
  const int mantissa = bits & ((1 << f.mantissa_bits) - 1);
  if (exponent == 0) return std::ldexp(static_cast<float>(mantissa), 1 - f.bias - f.mantissa_bits);
  return std::ldexp(static_cast<float>(mantissa + (1 << f.mantissa_bits)), exponent - f.bias - f.mantissa_bits);
}

constexpr uint8_t kE8m0Nan = 0xff;
constexpr int kE8m0Largest = 0xfe;

uint8_t float_to_e8m0(float value, bool saturate, E8m0Round round) {
  const auto outside = [&](int nearest) { return saturate ? static_cast<uint8_t>(nearest) : kE8m0Nan; };
  if (std::isnan(value)) return kE8m0Nan;
  if (std::isinf(value)) return outside(kE8m0Largest);
  if (value == 0) return outside(0);
  int exponent = 0;
  const float m = std::frexp(std::fabs(value), &exponent);  // value = m * 2^exponent, m in [0.5, 1)
  const bool up = round == E8m0Round::UP ? m > 0.5f : round == E8m0Round::NEAREST && m >= 0.75f;
  const int bits = exponent - 1 + (up ? 1 : 0) + 127;
  if (bits < 0) return outside(0);
  if (bits > kE8m0Largest) return outside(kE8m0Largest);
  return static_cast<uint8_t>(bits);
}

}  // namespace

int dtype_bits(DType dtype) {
  switch (dtype) {
    case DType::INT2:
    case DType::UINT2:
      return 2;
    case DType::INT4:
    case DType::UINT4:
    case DType::FLOAT4E2M1:
      return 4;
    default:
      return static_cast<int>(dtype_size(dtype)) * 8;
  }
}

bool is_packed(DType dtype) { return dtype_bits(dtype) > 0 && dtype_bits(dtype) < 8; }
bool is_small_float(DType dtype) { return is_float(dtype) && dtype_size(dtype) == 1; }

uint8_t packed_element(DType dtype, uint8_t bits) {
  const int unused = 8 - dtype_bits(dtype);
  const auto top = static_cast<uint8_t>(bits << unused);
  if (is_signed_integer(dtype)) return static_cast<uint8_t>(static_cast<int8_t>(top) >> unused);
  return static_cast<uint8_t>(top >> unused);
}

IntegerRange integer_range(DType dtype) {
  const int bits = dtype_bits(dtype);
  check_internal(is_integer(dtype) && bits <= 32, "integer_range: not a type of at most 32 bits");
  if (is_signed_integer(dtype)) return {-(int64_t{1} << (bits - 1)), (int64_t{1} << (bits - 1)) - 1};
  return {0, (int64_t{1} << bits) - 1};
}

float small_float_to_float(DType dtype, uint8_t bits) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  if (dtype == DType::FLOAT8E8M0) return bits == kE8m0Nan ? nan : std::ldexp(1.0f, bits - 127);
  const Format f = format_of(dtype);
  const bool negative = (bits & f.sign) != 0;
  const auto magnitude = static_cast<uint8_t>(bits & (f.sign - 1));
  if (f.unsigned_zero && bits == 0x80) return nan;
  if (!f.unsigned_zero && magnitude > f.largest) {
    const bool infinite = f.has_infinity && magnitude == 0x7c;
    const float special = infinite ? std::numeric_limits<float>::infinity() : nan;
    return negative ? -special : special;
  }
  const float value = magnitude_of(f, magnitude);
  return negative ? -value : value;
}

uint8_t float_to_small_float(DType dtype, float value, bool saturate, E8m0Round e8m0) {
  if (dtype == DType::FLOAT8E8M0) return float_to_e8m0(value, saturate, e8m0);
  const Format f = format_of(dtype);
  const uint8_t sign = std::signbit(value) ? f.sign : 0;
  const auto signed_bits = [&](uint8_t magnitude) -> uint8_t {
    if (f.unsigned_zero && magnitude == 0) return 0;
    return static_cast<uint8_t>(sign | magnitude);
  };
  const auto not_a_number = [&]() -> uint8_t {
    return f.unsigned_zero || f.nan == 0 ? f.nan : static_cast<uint8_t>(sign | f.nan);
  };
  if (std::isnan(value)) return not_a_number();
  const auto overflow = [&]() -> uint8_t {
    if (saturate || f.nan == 0) return signed_bits(f.largest);
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
