// Convolutions and matrix products in oneDNN's terms: what the float and the integer families share.
#pragma once

#include <optional>

#include "kernels/onednn/layout.h"
#include "kernels/onednn/primitive_kernel.h"

namespace deepjit::onednn {

// A convolution step without its epilogue.
struct ConvProblem {
  ActivationLayout layout;
  memory::desc src, weights, dst;  // plain, in the operands' own element types
  memory::dims strides, dilations, pads_begin, pads_end;
  int64_t group = 1;
  std::string reason;  // why there is none
};

// Input 0 is X, weights_input is W; `transposed` for ConvTranspose.
ConvProblem conv_problem(const StepShape& shape, int weights_input, bool transposed);

// The same tensor in a layout that the primitive chooses.
memory::desc free_layout(const memory::desc& desc);

// The product with both operands and the result made at least 2-D.
struct Product {
  Dims a, b, y;  // a is [.., M, K], b [.., K, N], y [.., M, N], all of one rank
  bool trans_a = false, trans_b = false;
  bool row = false, column = false;  // A, B was a vector
  bool single_b() const { return Dims(std::span<const int64_t>(b.begin(), b.size() - 2)).count() == 1; }
};

Product product_of(const Dims& a, const Dims& b, bool trans_a, bool trans_b);

// Leading dims of 1 up to the rank.
void pad_rank(Dims& dims, int rank);

// Dense matrices, the last two dims swapped in memory when `transposed`.
memory::desc matrix_desc(DType dtype, const Dims& dims, bool transposed);

// [M, N] of dims that broadcast to y, where rows run over all leading dims; nothing when they do so only partly.
std::optional<Dims> collapse(const Dims& dims, const Dims& y);

}  // namespace deepjit::onednn
