// Types and symbolic shapes of every value, by the ops' own shape rules.
//
// Needs a graph in topological order whose inputs and constants have types. Guarantees a dtype for every
// value, the best shape known, and Value::values for shape arithmetic; an error names the node.
#pragma once

#include "graph/graph.h"

namespace deepjit {

void infer_types(Graph& graph);
// One node (and its bodies).
void infer_node(Node& node);

}  // namespace deepjit
