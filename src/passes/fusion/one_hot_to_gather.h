// A one-hot product is a table look-up: MatMul(Cast(Equal(ids, 0..V-1)), W) is Gather(W, ids).
//
// Ids outside 0..V-1 match nothing and give a zero row: the table gets one, and such ids are sent there. Only
// for finite W, since 0 * inf is NaN.
#pragma once

#include "graph/graph.h"

namespace deepjit {

bool one_hot_to_gather(Graph& graph);

}  // namespace deepjit
