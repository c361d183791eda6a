// Puts 2-D convolutions and pools of float32, float16 and bfloat16 into channels-last order, the order that kernels of
// the CPU and of tensor cores like: Conv becomes Transpose, deepjit.Conv with layout NHWC, Transpose. The transposes
// pass cancels the pairs between neighbours, so this stands right before it. GlobalAveragePool and GlobalMaxPool become
// ReduceMean and ReduceMax.
#pragma once

#include "graph/graph.h"

namespace deepjit {

bool use_nhwc(Graph& graph);

}  // namespace deepjit
