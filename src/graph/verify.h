// Checks every invariant of graph.h; passes are run with it in debug builds and on demand.
//
// Values: unique names, a type, an owner, exactly one of input, constant and node output. Nodes: a known op
// with a fitting number of inputs, outputs and bodies, every read defined before it in this graph or one
// around it. Use lists equal the actual uses.
#pragma once

#include "graph/graph.h"

namespace deepjit {

// Throws Error(INTERNAL) that says what is wrong.
void verify(const Graph& graph);

}  // namespace deepjit
