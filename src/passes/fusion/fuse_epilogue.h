// Moves pointwise ops behind Conv, ConvTranspose, MatMul and Gemm into the op itself, as its epilogue.
//
// An op is taken when the value before it has no other reader, is no graph output, and keeps its shape: an
// activation, arithmetic with a number, or arithmetic with another tensor (a residual) that broadcasts to
// it. A MatMul takes a vector that is added as its bias and reads a transposed right side directly.
#pragma once

#include "graph/graph.h"

namespace deepjit {

bool fuse_epilogue(Graph& graph);

}  // namespace deepjit
