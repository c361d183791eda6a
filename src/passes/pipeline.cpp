#include "passes/pipeline.h"

#include <chrono>
#include <memory>

#include "passes/attention/attention_rows.h"
#include "passes/attention/fuse_attention.h"
#include "passes/cleanup/casts.h"
#include "passes/cleanup/common_subexpressions.h"
#include "passes/cleanup/dead_code.h"
#include "passes/cleanup/fold_constants.h"
#include "passes/cleanup/identities.h"
#include "passes/cleanup/refresh_types.h"
#include "passes/cleanup/shape_subgraphs.h"
#include "passes/fusion/fold_batchnorm.h"
#include "passes/fusion/fold_pads.h"
#include "passes/fusion/fuse_epilogue.h"
#include "passes/fusion/fuse_patterns.h"
#include "passes/fusion/one_hot_to_gather.h"
#include "passes/fusion/pointwise_over_gather.h"
#include "passes/fusion/split_to_slices.h"
#include "passes/layout/layout_nhwc.h"
#include "passes/layout/sink_views.h"
#include "passes/layout/space_to_depth.h"
#include "passes/layout/transposes.h"

namespace deepjit {

namespace {

// Cheap passes that enable each other; they stand after every step that leaves debris.
void add_cleanup(std::vector<Pass>& list, int group, const std::shared_ptr<FoldBudget>& budget) {
  auto add = [&](const char* name, const char* why, std::function<bool(Graph&)> run) {
    list.push_back({name, why, std::move(run), group});
  };
  add("fold_constants", "evaluates what is known now; first, since every other pass looks for constants",
      [budget](Graph& graph) { return fold_constants_within(graph, *budget); });
  add("refresh_types", "learns shapes from new constants; right after folding, before anyone asks for shapes",
      refresh_types);
  add("shape_subgraphs", "makes shape operands constants; after folding, which shows what is known",
      simplify_shape_subgraphs);
  add("casts", "merges Casts that lose nothing; before identities, which drops a Cast to the same type", merge_casts);
  add("identities", "drops ops that return their input; after folding, which shows zeros and ones", remove_identities);
  add("common_subexpressions", "computes equal things once; after identities, so equal things look equal",
      merge_common_subexpressions);
  add("dead_code", "drops what nobody reads; last of its group, it sweeps up after the others", remove_dead_code);
}

void add_rewrites(std::vector<Pass>& list, int group, const std::shared_ptr<FoldBudget>& budget) {
  auto add = [&](const char* name, const char* why, bool (*run)(Graph&)) { list.push_back({name, why, run, group}); };
  add("transposes", "cancels Transposes; before batch norms, which it brings next to their convolutions",
      reduce_transposes);
  add("sink_views", "lets pointwise ops meet the convolution before a view; before batch norms, which look for them",
      sink_views);
  add("fold_batchnorm", "puts scales and shifts into weights; before patterns and fusion, which then see less",
      fold_batchnorm);
  add("fuse_patterns", "names ops that were written out; before anything that treats an op as a whole", fuse_patterns);
  add("one_hot_to_gather", "turns one-hot products into look-ups; once the ids are seen without Expand and Cast",
      one_hot_to_gather);
  add("pointwise_over_gather", "moves work from gathered rows to the table; after look-ups and activations are known",
      move_pointwise_over_gather);
  add("fold_pads", "gives a Pad to its convolution; once transposes and folding have made it plain", fold_pads);
  add_cleanup(list, group, budget);
}

}  // namespace

std::vector<Pass> default_pipeline(int level, double fold_work, const std::vector<Pass>& conversions) {
  std::vector<Pass> list;
  const auto budget = std::make_shared<FoldBudget>();  // of all folding in one run of the list
  budget->work = fold_work;
  if (level >= 1) add_cleanup(list, 1, budget);
  if (level >= 2) add_rewrites(list, 2, budget);
  list.insert(list.end(), conversions.begin(), conversions.end());
  if (level == 1 && !conversions.empty()) add_cleanup(list, 3, budget);
  if (level < 2) return list;
  if (level >= 3) {
    list.push_back({"space_to_depth", "more channels for images of few; while channels come first", deepen_images});
    list.push_back(
        {"layout_nhwc", "channels last for convolutions; after weights are final, before Transposes cancel", use_nhwc});
    list.push_back({"transposes", "cancels the Transposes that the layout brought", reduce_transposes, 3});
    list.push_back({"fold_pads", "again, for Pads that a Transpose kept from their convolution", fold_pads, 3});
    add_cleanup(list, 3, budget);
  }
  list.push_back(
      {"fuse_attention", "names attention that is written out; once types and layouts are final", fuse_attention, 4});
  list.push_back({"read_heads_in_place", "lets attention read parts of longer rows; once it has its name",
                  read_heads_in_place, 4});
  list.push_back({"dead_code", "drops the parts of attention; before anyone counts readers", remove_dead_code, 4});
  list.push_back({"merge_projections", "makes Q, K and V by one product; while their biases are still apart",
                  merge_projections, 4});
  list.push_back({"transposes", "cancels the Transposes that attention brought; before epilogues hide products",
                  reduce_transposes, 4});
  list.push_back({"fuse_epilogue",
                  "moves pointwise ops into convolutions and products; last, it hides them from others", fuse_epilogue,
                  4});
  list.push_back({"split_to_slices", "lets kernels read the parts of a Split; once patterns and layouts have seen it",
                  split_to_slices, 4});
  add_cleanup(list, 4, budget);
  return list;
}

PassReport run_pipeline(Graph& graph, const PassOptions& options, const std::vector<Pass>& conversions) {
  PassReport report;
  const auto start = std::chrono::steady_clock::now();
  report.nodes_before = count_nodes(graph);
  const std::vector<Pass> list = default_pipeline(options.level, options.fold_work, conversions);
  for (size_t first = 0; first < list.size();) {
    size_t end = first + 1;
    const int group = list[first].repeat_group;
    while (group != 0 && end < list.size() && list[end].repeat_group == group) ++end;
    for (int round = 0; round < (group != 0 ? limits::pass_rounds : 1); ++round) {
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
