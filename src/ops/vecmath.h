// Elementary functions that vectorize when they are called in a plain loop over floats; in double they are
// the C library's. Float results are within a few units in the last place.
#pragma once

#include <cmath>

namespace deepjit {

inline double vec_exp(double x) { return std::exp(x); }
inline double vec_tanh(double x) { return std::tanh(x); }
inline double vec_erf(double x) { return std::erf(x); }
inline double vec_sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
inline double vec_expm1(double x) { return std::expm1(x); }

inline float vec_exp(float x) { return std::exp(x); }
inline float vec_tanh(float x) { return std::tanh(x); }
inline float vec_erf(float x) { return std::erf(x); }
inline float vec_expm1(float x) { return std::expm1(x); }
inline float vec_sigmoid(float x) { return 1 / (1 + vec_exp(-x)); }

}  // namespace deepjit
