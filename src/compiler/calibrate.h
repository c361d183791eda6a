// What values a graph takes on samples: its reference runs on them, in float32 on the CPU.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace deepjit {

// One run's inputs, by name.
using Sample = std::map<std::string, Tensor>;

// The largest finite magnitude of each float32 value over all samples, by name; values in bodies are not looked at.
// The graph is as it was afterwards. Throws INPUT_NAME, INPUT_SHAPE and what else a run throws, with the sample's
// number.
std::map<std::string, double> see_values(Graph& graph, const std::vector<Sample>& samples, int threads);

}  // namespace deepjit
