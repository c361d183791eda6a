// A Split into parts of known sizes becomes a Slice for each part that is read: kernels read through a Slice, and none
// has several results.
//
// Only where a reader may be in a kernel with its part. A Split that only libraries and outputs read copies all parts
// at once, and stays.
#pragma once

#include "graph/graph.h"

namespace deepjit {

bool split_to_slices(Graph& graph);

}  // namespace deepjit
