// Pointwise ops on rows gathered from a constant table are done once on the table, at build time: Gather
// then Add, Gelu, ... becomes Gather from the changed table. Other operands must be constants that are the
// same for every row, and the table must not have more rows than are gathered.
#pragma once

#include "graph/graph.h"

namespace deepjit {

bool move_pointwise_over_gather(Graph& graph);

}  // namespace deepjit
