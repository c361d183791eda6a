// A convolution step in oneDNN's terms, without its epilogue: what the float and the integer families share.
#pragma once

#include "kernels/onednn/layout.h"
#include "kernels/onednn/primitive_kernel.h"

namespace deepjit::onednn {

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

}  // namespace deepjit::onednn
