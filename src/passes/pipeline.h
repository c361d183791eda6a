// The ordered list of passes, and the stage that runs it: GRAPH in, a smaller and faster GRAPH out.
//
// Needs a graph with inferred types (import and parse_graph give that). Guarantees the same results for
// the same inputs, the same names of graph inputs and outputs, and inferred types.
#pragma once

#include "passes/pass.h"

namespace deepjit {

// Level 0: nothing. 1: cleanup that only removes work. 2: rewrites and fusion. 3: also layouts and rewrites
// that pay only for larger inputs. `conversions` change the types of values and come once, at every level: after the
// rewrites, which fold scales into weights and name norms and activations, and before layouts and epilogues, which
// see the types of the end.
std::vector<Pass> default_pipeline(int level, double fold_work = static_cast<double>(limits::fold_work),
                                   const std::vector<Pass>& conversions = {});

PassReport run_pipeline(Graph& graph, const PassOptions& options = {}, const std::vector<Pass>& conversions = {});

}  // namespace deepjit
