// Graph to program: fused regions and single nodes to steps, values to numbered buffers, bodies to blocks.
//
// Stands between the passes and tuning. Needs a verified graph with types; guarantees a program whose steps
// are in order, where outputs that nobody reads are dropped and every step runs by the reference until the
// tuner chooses. Every edge that stays between two kernels is in the program's ledger, with its rule.
#pragma once

#include "graph/graph.h"
#include "program/program.h"

namespace deepjit {

struct LowerOptions {
  bool regions = true;  // look for regions that become one kernel
};

Program lower(const Graph& graph, const LowerOptions& options = {});

}  // namespace deepjit
