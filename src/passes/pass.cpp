#include "passes/pass.h"

#include <algorithm>
#include <chrono>

#include "base/clock.h"
#include "graph/verify.h"

namespace deepjit {

PassStat& PassReport::stat(const std::string& name) {
  auto it = std::find_if(passes.begin(), passes.end(), [&](const PassStat& s) { return s.name == name; });
  if (it != passes.end()) return *it;
  passes.push_back({.name = name});
  return passes.back();
}

int count_nodes(const Graph& graph) {
  int n = static_cast<int>(graph.nodes().size());
  for (const auto& node : graph.nodes()) {
    for (const auto& body : node->bodies) n += count_nodes(*body);
  }
  return n;
}

bool run_pass(Graph& graph, const Pass& pass, const PassOptions& options, PassReport* report) {
  if (options.disabled.count(pass.name) != 0) return false;
  const int before = count_nodes(graph);
  const auto start = std::chrono::steady_clock::now();
  bool changed = false;
  try {
    for_each_graph(graph, [&](Graph& g) { changed = pass.run(g) || changed; });
    if (changed && options.verify) verify(graph);
  } catch (const Error& e) {
    throw e.with_prefix("pass " + pass.name + ": ");
  }
  if (report != nullptr) {
    PassStat& stat = report->stat(pass.name);
    stat.runs += 1;
    stat.changed += changed ? 1 : 0;
    stat.nodes_removed += before - count_nodes(graph);
    stat.seconds += seconds_since(start);
  }
  if (changed && options.dump) options.dump(pass.name, graph);
  return changed;
}

}  // namespace deepjit
