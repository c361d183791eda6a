// Names attention that is written out: MatMul(Softmax(scale Q K^T + mask), V) becomes Attention, for which devices have
// one kernel. 16-bit floats only: in float32 the parts are as fast.
//
// Where Q, K and V are heads that a Transpose took apart, the Attention reads the rows as they were, and the Transposes
// go. Scores and weights that were rounded to 16 bits between the parts are not rounded any more.
#pragma once

#include "graph/graph.h"

namespace deepjit {

bool fuse_attention(Graph& graph);

}  // namespace deepjit
