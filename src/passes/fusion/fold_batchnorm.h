// Folds scales and shifts per output channel into the weights and bias of the op before them.
//
// After Conv, ConvTranspose and Gemm with constant weights whose result nobody else reads:
// BatchNormalization (inference, constant parameters), and Mul, Add, Sub, Div by a constant that is one
// number or one per output channel. MatMul takes scales only. Any other BatchNormalization with constant
// parameters becomes Mul and Add.
#pragma once

#include "graph/graph.h"

namespace deepjit {

bool fold_batchnorm(Graph& graph);

}  // namespace deepjit
