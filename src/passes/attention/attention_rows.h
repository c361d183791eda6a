// Attention reads its heads where they are: passes behind fuse_attention.
//
// read_heads_in_place: Q, K and V that come from longer rows, or from rows with tokens before the batch, through
//   Reshapes, Transposes, Slices and Gathers are read from those rows, and a result that is turned is written turned
//   (deepjit.Attention). The ops between are not run.
// merge_projections: Q, K and V that are three products of one matrix with constant weights become one product whose
//   rows hold all three.
//
// 16-bit floats only, as fuse_attention.
#pragma once

#include "graph/graph.h"

namespace deepjit {

bool read_heads_in_place(Graph& graph);
bool merge_projections(Graph& graph);

}  // namespace deepjit
