// Elementary functions that vectorize when they are called in a plain loop over floats: no branches, no
// calls. Float results are within 4 units in the last place; in double they are the C library's.
// NaN stays NaN. Polynomials are fits of our own over the reduced ranges.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace deepjit {

inline double vec_exp(double x) { return std::exp(x); }
inline double vec_expm1(double x) { return std::expm1(x); }
inline double vec_tanh(double x) { return std::tanh(x); }
inline double vec_erf(double x) { return std::erf(x); }
inline double vec_sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
inline double vec_log(double x) { return std::log(x); }
// log(1 + e^x) without overflow.
inline double vec_softplus(double x) { return (x < 0 ? 0 : x) + std::log1p(std::exp(-std::fabs(x))); }

namespace vecmath_detail {

struct Reduced {
  float low, high;  // 2^n as the product of two powers: each stays normal where 2^n is not
  float m1;         // e^r - 1, where x = n ln 2 + r
};

inline Reduced reduce_exp(float x) {
  constexpr float kMagic = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer in the low bits
  const float shifted = x * 1.44269504f + kMagic;
  const float n = shifted - kMagic;
  const auto i = static_cast<int32_t>(std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(kMagic));
  const auto half = static_cast<uint32_t>(i >> 1);
  const uint32_t rest = static_cast<uint32_t>(i) - half;
  const auto power = [](uint32_t e) { return std::bit_cast<float>((e + 127u) << 23); };  // 2^e
  const float r = (x - n * 0.693145752f) - n * 1.42860677e-6f;  // ln 2 in two parts, the first with few bits
  float q = 0.00019899587f;
  q = q * r + 0.0013933884f;
  q = q * r + 0.0083332983f;
  q = q * r + 0.041666463f;
  q = q * r + 0.16666667f;
  q = q * r + 0.5f;
  return {power(half), power(rest), r + r * r * q};
}

}  // namespace vecmath_detail

inline float vec_exp(float x) {
  x = x < -104.0f ? -104.0f : x;
  x = x > 89.0f ? 89.0f : x;
  const vecmath_detail::Reduced e = vecmath_detail::reduce_exp(x);
  return (1.0f + e.m1) * e.low * e.high;
}

// e^x - 1; for x above 88 it stays at its value for 88.
inline float vec_expm1(float x) {
  x = x < -104.0f ? -104.0f : x;
  x = x > 88.0f ? 88.0f : x;
  const vecmath_detail::Reduced e = vecmath_detail::reduce_exp(x);
  const float scale = e.low * e.high;
  return scale * e.m1 + (scale - 1.0f);
}

inline float vec_tanh(float x) {
  float magnitude = std::fabs(x);
  magnitude = magnitude > 10.0f ? 10.0f : magnitude;
  const float t = vec_expm1(2.0f * magnitude);
  return std::copysign(t / (t + 2.0f), x);
}

inline float vec_sigmoid(float x) { return 1.0f / (1.0f + vec_exp(-x)); }

inline float vec_erf(float x) {
  float magnitude = std::fabs(x);
  magnitude = magnitude > 3.925f ? 3.925f : magnitude;  // 1 from here on
  const float z = magnitude * magnitude;
  float p = 2.0533484530e-06f;
  p = p * z + 2.8376237605e-04f;
  p = p * z + 3.7275496870e-03f;
  p = p * z + 5.2630793303e-02f;
  p = p * z + 1.8955858052e-01f;
  p = p * z + 1.1283791065e+00f;
  float q = 3.8066293200e-05f;
  q = q * z + 1.1527967872e-03f;
  q = q * z + 1.4893350191e-02f;
  q = q * z + 1.1375334859e-01f;
  q = q * z + 5.0132489204e-01f;
  q = q * z + 1.0f;
  const float y = magnitude * (p / q);
  return std::copysign(y > 1.0f ? 1.0f : y, x);
}

inline float vec_log(float x) {
  constexpr float kInf = __builtin_inff();
  const bool tiny = x < 1.17549435e-38f;  // subnormal
  const uint32_t bits = std::bit_cast<uint32_t>(tiny ? x * 8388608.0f : x);
  // The mantissa is then in [sqrt(1/2), sqrt(2)). Unsigned: a negative x may wrap.
  const int32_t exponent = static_cast<int32_t>(bits - 0x3f3504f3u) >> 23;
  const float f = std::bit_cast<float>(bits - (static_cast<uint32_t>(exponent) << 23)) - 1.0f;
  const float n = static_cast<float>(exponent) - (tiny ? 23.0f : 0.0f);
  float p = 0.0714975372f;
  p = p * f - 0.115712009f;
  p = p * f + 0.116615109f;
  p = p * f - 0.124110505f;
  p = p * f + 0.142499372f;
  p = p * f - 0.166684806f;
  p = p * f + 0.200007081f;
  p = p * f - 0.249999896f;
  p = p * f + 0.333333313f;
  float y = n * 1.42860677e-6f + (f + f * f * (f * p - 0.5f)) + n * 0.693145752f;
  y = x < kInf ? y : x;  // infinity and NaN
  y = x == 0 ? -kInf : y;
  return x < 0 ? __builtin_nanf("") : y;
}

inline float vec_softplus(float x) {
  const float u = vec_exp(-std::fabs(x));  // log(1 + u) by a polynomial over [0, 1]
  float p = -0.00316399941f;
  p = p * u + 0.0194874863f;
  p = p * u - 0.0562695265f;
  p = p * u + 0.105329506f;
  p = p * u - 0.152632743f;
  p = p * u + 0.196610183f;
  p = p * u - 0.249511674f;
  p = p * u + 0.333296657f;
  p = p * u - 0.499998897f;
  p = p * u + 1.0f;
  return (x < 0 ? 0.0f : x) + u * p;
}

}  // namespace deepjit
