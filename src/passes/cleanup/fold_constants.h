// Evaluates at build time what does not depend on inputs, by the ops' references: nodes whose inputs are
// all constants, shape arithmetic whose elements are known, and If with a known condition.
//
// A result that would grow the model too much (over 64 MiB, or over four times its inputs beyond 1 MiB) is
// left to run time. An evaluation that fails is left too, so the error comes when the node runs.
#pragma once

#include "base/limits.h"
#include "graph/graph.h"

namespace deepjit {

bool fold_constants(Graph& graph);

// What one build may spend on folding: a model can ask for any amount of memory and time.
struct FoldBudget {
  int64_t bytes = limits::fold_total_bytes;  // plus a multiple of the constants that the model has
  double work = static_cast<double>(limits::fold_work);
  bool started = false;
};
bool fold_constants_within(Graph& graph, FoldBudget& budget);

}  // namespace deepjit
