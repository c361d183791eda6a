// A step as one of cuBLASLt's matrix products, with all that it can do in the same launch. Pure: needs no library.
//
//   y = activation(alpha * A B + beta * C + bias)
//
// for a batch at even strides, and where the batch dims do not merge into one, for several launches of such a batch.
// MatMul, deepjit.MatMul, Gemm, and convolutions of 1x1 windows over channels-last images, whose rows are the pixels.
#pragma once

#include <string>
#include <vector>

#include "kernels/kernel.h"

namespace deepjit::cublaslt {

enum class Activation { NONE, RELU, GELU_TANH };

struct Product {
  DType dtype = DType::UNDEFINED;  // of all operands; sums are float32
  bool tf32 = false;
  int64_t m = 0, n = 0, k = 0;
  bool trans_a = false, trans_b = false;  // A lies in memory as [k, m], B as [n, k]
  // Elements from one product of the batch to the next, or from one launch to another.
  struct Offsets {
    int64_t a = 0, b = 0, c = 0, y = 0;
  };
  int64_t batch = 1;
  Offsets stride;
  std::vector<Offsets> launches;
  float alpha = 1, beta = 0;
  int c_input = -1;     // of the step
  int bias_input = -1;  // n values, one for each column of y
  Activation activation = Activation::NONE;
  std::string reason;  // why the step is no such product; "" when it is one
};

// Is the op of the kind? Others are none of cuBLASLt's business.
bool is_product_op(const std::string& op);

Product product_of(const StepShape& shape);

}  // namespace deepjit::cublaslt
