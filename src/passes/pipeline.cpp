#include "passes/pipeline.h"

#include <chrono>

#include "passes/common_subexpressions.h"
#include "passes/dead_code.h"
#include "passes/fold_batchnorm.h"
#include "passes/fold_constants.h"
#include "passes/fuse_patterns.h"
#include "passes/identities.h"

namespace deepjit {

namespace {

constexpr int kMaxRounds = 8;

// Cheap passes that enable each other; they stand after every step that leaves debris.
void add_cleanup(std::vector<Pass>& list, int group) {
  list.push_back({"fold_constants", "evaluates what is known now; first, since every other pass looks for constants",
                  fold_constants, group});
  list.push_back({"identities", "drops ops that return their input; after folding, which shows zeros and ones",
                  remove_identities, group});
  list.push_back({"common_subexpressions", "computes equal things once; after identities, so equal things look equal",
                  merge_common_subexpressions, group});
  list.push_back({"dead_code", "drops what nobody reads; last of its group, it sweeps up after the others",
                  remove_dead_code, group});
}

}  // namespace

std::vector<Pass> default_pipeline(int level) {
  std::vector<Pass> list;
  if (level < 1) return list;
  add_cleanup(list, 1);
  if (level < 2) return list;
  list.push_back({"fold_batchnorm",
                  "puts scales and shifts into weights; before patterns and fusion, which then see less",
                  fold_batchnorm, 2});
  list.push_back(
      {"fuse_patterns", "names ops that were written out; after constants are plain numbers", fuse_patterns, 2});
  add_cleanup(list, 2);
  return list;
}

PassReport run_pipeline(Graph& graph, const PassOptions& options) {
  PassReport report;
  const auto start = std::chrono::steady_clock::now();
  report.nodes_before = count_nodes(graph);
  const std::vector<Pass> list = default_pipeline(options.level);
  for (size_t first = 0; first < list.size();) {
    size_t end = first + 1;
    const int group = list[first].repeat_group;
    while (group != 0 && end < list.size() && list[end].repeat_group == group) ++end;
    for (int round = 0; round < (group != 0 ? kMaxRounds : 1); ++round) {
      bool changed = false;
      for (size_t i = first; i < end; ++i) changed = run_pass(graph, list[i], options, &report) || changed;
      if (!changed) break;
    }
    first = end;
  }
  report.nodes_after = count_nodes(graph);
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return report;
}

}  // namespace deepjit
