// What the quantization files share: reading scales and zero points, and storing 8-bit results.
#pragma once

#include <cmath>
#include <vector>

#include "ops/op.h"

namespace deepjit {

void add_integer_matmul_ops(OpRegistry& registry);  // quantize_matmul.cpp: MatMulInteger, QLinearMatMul
void add_integer_conv_ops(OpRegistry& registry);    // quantize_conv.cpp: ConvInteger, QLinearConv

// The elements of input i as float (scales) or int32 (zero points); `count` zeros when it is omitted.
std::vector<float> read_scales(const EvalContext& ctx, int i);
std::vector<int32_t> read_zero_points(const EvalContext& ctx, int i, int64_t count = 1);

// The range of a quantized integer type, as float.
struct QuantRange {
  float low, high;
};
QuantRange quant_range(DType dtype);

// Rounds to even, adds the zero point and saturates.
inline float quantize_value(float scaled, float zero_point, QuantRange range) {
  const float v = std::rint(scaled) + zero_point;
  return v < range.low ? range.low : v > range.high ? range.high : v;
}

// Quantizes n floats to uint8 with the scale and zero point that just hold them and 0.
struct DynamicQuantization {
  float scale;
  int32_t zero_point;
};
DynamicQuantization quantize_dynamically(const float* x, int64_t n, uint8_t* out);

// out[k] = saturate(round(in[k] * multiplier) + zero_point) into int8 or uint8.
void requantize(const int32_t* in, int64_t n, float multiplier, int32_t zero_point, DType dtype, void* out);

// out[j] += x * in[j]; the inner loop of integer products.
void integer_axpy(int32_t* out, const int32_t* in, int32_t x, int64_t n);
// out[j] = in[j] - zero_point, from int8 or uint8.
void widen(const TensorView& in, int64_t start, int64_t n, int32_t zero_point, int32_t* out);

void expect_8bit(const InferContext& ctx, std::string_view op, int i);

}  // namespace deepjit
