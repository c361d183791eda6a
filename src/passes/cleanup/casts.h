// Merges chains of Casts whose first step loses nothing: float16 -> float32 -> float16 is nothing, int8 ->
// int32 -> float32 is one Cast. (float32 -> float16 -> float32 rounds, and stays.)
#pragma once

#include "graph/graph.h"

namespace deepjit {

bool merge_casts(Graph& graph);

// Every value of `from` is a value of `to`.
bool cast_is_exact(DType from, DType to);

}  // namespace deepjit
