// Puts 2-D convolutions and pools of float32 into channels-last order, the order the CPU kernels like:
// Conv becomes Transpose, deepjit.Conv with layout NHWC, Transpose. The transposes pass cancels the pairs
// between neighbours, so this stands right before it. GlobalMaxPool becomes ReduceMax.
#pragma once

#include "graph/graph.h"

namespace deepjit {

bool use_nhwc(Graph& graph);

}  // namespace deepjit
