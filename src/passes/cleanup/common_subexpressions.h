// Computes equal things once: nodes of one graph with the same op, attributes and inputs, and constants
// with the same type and bytes. Random ops and control flow are left alone.
#pragma once

#include "graph/graph.h"

namespace deepjit {

bool merge_common_subexpressions(Graph& graph);

}  // namespace deepjit
