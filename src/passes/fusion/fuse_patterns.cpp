#include "passes/fusion/fuse_patterns.h"

#include "passes/edit.h"

namespace deepjit {

namespace {

bool fuse_once(Graph& graph) {
  bool changed = false;
  // Backwards, so that the largest form is seen before its parts.
  std::vector<Node*> nodes = graph.snapshot();
  for (auto it = nodes.rbegin(); it != nodes.rend(); ++it) {
    Node* node = *it;
    if (node->output() == nullptr || node->outputs.size() != 1 || !node->bodies.empty()) continue;
    if (Graph::use_count(node->output()) == 0) continue;  // part of a pattern that is fused already
    Value* fused = match_activation(node);
    if (fused == nullptr) fused = match_normalization(node);
    if (fused == nullptr) continue;
    // A new value can always take the name of an output.
    replace_value(node->output(), fused);
    graph.erase(node);
    changed = true;
  }
  return changed;
}

}  // namespace

bool fuse_patterns(Graph& graph) {
  bool changed = false;
  while (fuse_once(graph)) changed = true;  // a fused op can be part of a larger pattern
  return changed;
}

}  // namespace deepjit
