// Makes shape operands constants where the shapes are known up to one dim per tensor, so that the
// Shape -> Gather -> Concat arithmetic behind them falls away.
//
// Reshape to [N,196,C] takes the constant [0,196,C] or [-1,196,C]; a view of a view is one Reshape; a Slice
// to the end, an Expand that keeps dims and a Resize to whole multiples take constants too; a reduction
// whose dims are put back keeps them itself. Needs symbolic shapes; an operand is replaced only where it
// means the same for every size.
#pragma once

#include "graph/graph.h"

namespace deepjit {

bool simplify_shape_subgraphs(Graph& graph);

}  // namespace deepjit
