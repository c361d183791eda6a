// The four 8-bit float formats of ONNX: exact decoding, and rounding to nearest even from float.
//
//   E4M3FN    bias 7, no infinity, NaN is S.1111.111, largest 448
//   E4M3FNUZ  bias 8, no infinity, no -0, NaN is 0x80, largest 240
//   E5M2      bias 15, infinity S.11111.00, largest 57344
//   E5M2FNUZ  bias 16, no infinity, no -0, NaN is 0x80, largest 57344
#pragma once

#include "base/types.h"

namespace deepjit {

// The value of a float8 element; `dtype` is one of the four float8 types.
float float8_to_float(DType dtype, uint8_t bits);

// Rounds to nearest even. With `saturate`, a finite value out of range and (as ONNX has it) an infinity give
// the largest finite value of their sign; without, they give infinity where the format has one, else NaN.
uint8_t float_to_float8(DType dtype, float value, bool saturate);

}  // namespace deepjit
