// Products with 8-bit weights whose left side is quantized on the spot, for deepjit.DynamicQuantizeLSTM.
#pragma once

#include <vector>

#include "ops/op.h"

namespace deepjit {

// Weights of one direction, [columns, depth] in int8 or uint8, with one scale and zero point or one a column.
struct QuantizedWeights {
  DType dtype = DType::UNDEFINED;
  const void* data = nullptr;
  int64_t columns = 0, depth = 0;
  const float* scales = nullptr;
  const int32_t* zeros = nullptr;
  bool per_column = false;
};

// Multiplies rows of floats by such weights. The rows of one call are quantized together: one scale, one zero point,
// as DynamicQuantizeLinear finds them.
class DynamicProduct {
 public:
  // Scratch for calls of up to `values` floats on the left.
  DynamicProduct(EvalContext& ctx, int64_t values);
  // out = x W^T, or out += x W^T.
  void run(const float* x, int64_t rows, const QuantizedWeights& w, float* out, bool add);

 private:
  uint8_t* bytes_;
  int16_t* centred_;  // x without its zero point
};

// The weights of input `weights` [directions, columns, depth] with the scales and zero points of the two inputs from
// `scale` on, one entry a direction. `scales` and `zeros` hold what the entries point at.
std::vector<QuantizedWeights> quantized_weights(EvalContext& ctx, int weights, int scale, std::vector<float>& scales,
                                                std::vector<int32_t>& zeros);

}  // namespace deepjit
