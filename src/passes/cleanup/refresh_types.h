// Infers types again, since a constant that folding found can tell a shape. What was known stays known:
// a dim that inference cannot name keeps its old name.
#pragma once

#include "graph/graph.h"

namespace deepjit {

bool refresh_types(Graph& graph);

}  // namespace deepjit
