// A pass: a rewrite of the graph that never changes results; and the one wrapper that runs passes.
//
// run_pass gives every pass the same things: an off switch by name, the walk over nested bodies, time and
// node counts, the verifier, a dump hook, and its own name on an internal error.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "base/limits.h"
#include "graph/graph.h"

namespace deepjit {

struct Pass {
  std::string name;
  std::string why;                  // one line: what it does and why it stands where it stands
  std::function<bool(Graph&)> run;  // one graph without its bodies; true when it changed something
  int repeat_group = 0;             // neighbours of one nonzero group repeat until none changes anything
};

struct PassOptions {
  int level = 3;
  std::set<std::string> disabled;
  double fold_work = static_cast<double>(limits::fold_work);        // what constant folding may spend
  std::function<void(const std::string& pass, const Graph&)> dump;  // called after each pass that changed something
#ifdef NDEBUG
  bool verify = false;
#else
  bool verify = true;
#endif
};

// What one pass did, summed over its runs.
struct PassStat {
  std::string name;
  int runs = 0;
  int changed = 0;  // runs that changed something
  int nodes_removed = 0;
  double seconds = 0;
};

struct PassReport {
  int nodes_before = 0;
  int nodes_after = 0;
  double seconds = 0;
  std::vector<PassStat> passes;  // in order of first run

  PassStat& stat(const std::string& name);
};

// Nodes of the graph and all bodies.
int count_nodes(const Graph& graph);

// Runs one pass on `graph` and its bodies; false without running when it is switched off.
bool run_pass(Graph& graph, const Pass& pass, const PassOptions& options, PassReport* report = nullptr);

}  // namespace deepjit
