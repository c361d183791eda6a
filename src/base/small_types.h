// Element types of eight bits or fewer that C++ lacks: packed integers and small floats.
//
// Packed types have fewer than eight bits. ONNX stores several elements in a byte, the first in the lowest bits; in
// memory each element has its own byte, sign-extended where the type is a signed integer, else with zeros on top.
//
//   E4M3FN    bias 7, no infinity, NaN is S.1111.111, largest 448
//   E4M3FNUZ  bias 8, no infinity, no -0, NaN is 0x80, largest 240
//   E5M2      bias 15, infinity S.11111.00, largest 57344
//   E5M2FNUZ  bias 16, no infinity, no -0, NaN is 0x80, largest 57344
//   E2M1      4 bits, bias 1, neither infinity nor NaN, largest 6
//   E8M0      2^(bits - 127), no sign, no zero, NaN is 0xff
#pragma once

#include "base/types.h"

namespace deepjit {

int dtype_bits(DType dtype);  // of one element; 0 where elements are objects
bool is_packed(DType dtype);  // fewer than eight bits
bool is_small_float(DType dtype);

// The byte in memory of the packed element in the lowest bits of `bits`; other types: `bits` itself.
uint8_t packed_element(DType dtype, uint8_t bits);

// The smallest and largest value of an integer type of at most 32 bits.
struct IntegerRange {
  int64_t low, high;
};
IntegerRange integer_range(DType dtype);

// The value of an element of a small float type. Exact.
float small_float_to_float(DType dtype, uint8_t bits);

enum class E8m0Round { UP, DOWN, NEAREST };  // away from zero, towards zero, nearest with ties up

// Rounds to nearest even; E8M0 as `e8m0` says, from the magnitude. With `saturate`, a value out of range and (as ONNX
// has it) an infinity give the nearest finite value; without, infinity where the format has one, else NaN.
// E2M1 saturates always, and NaN gives 0.
uint8_t float_to_small_float(DType dtype, float value, bool saturate, E8m0Round e8m0 = E8m0Round::UP);

}  // namespace deepjit
