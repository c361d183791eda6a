// Removes ops that return their input unchanged: Identity, x+0, x*1, a Reshape to the same shape, a
// Transpose that moves nothing, a Concat of one, a double negation ...
// A Concat of Concats along one axis becomes one.
//
// Only where type and shape are the same for sure: x*1 with a larger 1 is a broadcast and stays.
#pragma once

#include "graph/graph.h"

namespace deepjit {

bool remove_identities(Graph& graph);

}  // namespace deepjit
