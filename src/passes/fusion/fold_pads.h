// A Pad with zeros before a convolution becomes the convolution's own padding. Pools are left alone: there a
// padded zero is a value like any other.
#pragma once

#include "graph/graph.h"

namespace deepjit {

bool fold_pads(Graph& graph);

}  // namespace deepjit
