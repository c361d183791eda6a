// Structural equality of two graphs, for pass tests and for the reproducibility of builds.
//
// Two graphs are equal when their inputs (in order, by type) and outputs (in order) map onto each other
// through the same ops, attributes, bodies and constants. Names of values and nodes do not matter, the order
// of nodes does not matter, and a + b is not b + a.
#pragma once

#include <string>

#include "graph/graph.h"

namespace deepjit {

// Empty when equal, else the first difference in words.
std::string graph_difference(const Graph& a, const Graph& b);

}  // namespace deepjit
