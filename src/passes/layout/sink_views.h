// Moves a Reshape, Squeeze or Unsqueeze of a convolution's or product's result below the pointwise ops that
// follow, so that these meet the op that can take them as its epilogue or bias. Operands are constants, whose
// shapes change along.
#pragma once

#include "graph/graph.h"

namespace deepjit {

bool sink_views(Graph& graph);

}  // namespace deepjit
