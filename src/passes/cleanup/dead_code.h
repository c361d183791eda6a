// Removes nodes, optional outputs, outputs of If, and constants that nobody reads.
#pragma once

#include "graph/graph.h"

namespace deepjit {

bool remove_dead_code(Graph& graph);

}  // namespace deepjit
