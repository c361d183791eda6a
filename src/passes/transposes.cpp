#include "passes/transposes.h"

#include "passes/edit.h"
#include "passes/permutation.h"

namespace deepjit {

namespace {

// A Transpose of a Transpose, and a Transpose that does nothing.
bool merge_transpose(Node* node) {
  if (node->op != "Transpose" || !ranked(node->input(0))) return false;
  if (is_identity(perm_of(*node))) return replace_node(node, node->input(0));
  Node* inner = producer_of(node->input(0), "Transpose");
  if (inner == nullptr || !ranked(inner->input(0))) return false;
  const Permutation p = compose(perm_of(*inner), perm_of(*node));
  if (is_identity(p) && replace_node(node, inner->input(0))) return true;
  node->attrs.set("perm", p);
  node->graph->set_input(node, 0, inner->input(0));
  return true;
}

bool transpose_to_reshape(Node* node) {
  if (node->op != "Transpose" || !ranked(node->input(0))) return false;
  const Permutation p = perm_of(*node);
  if (is_identity(p) || !moves_nothing(node->input(0)->type.shape, p)) return false;
  Value* view = emit_reshape(node, node->input(0), node->output()->type.shape.dims(), node);
  return view != nullptr && replace_node(node, view);
}

template <typename F>
bool for_nodes(Graph& graph, F&& f) {
  bool changed = false;
  for (Node* node : graph.snapshot()) changed = f(node) || changed;
  return changed;
}

}  // namespace

bool reduce_transposes(Graph& graph) {
  bool changed = for_nodes(graph, merge_transpose);
  // Every turn leaves fewer transposed bytes; the cap only guards against sizes that were guessed badly.
  for (size_t turns = 2 * graph.nodes().size(); turns > 0 && turn_regions(graph); --turns) {
    changed = true;
    for_nodes(graph, merge_transpose);
  }
  return for_nodes(graph, transpose_to_reshape) || changed;
}

}  // namespace deepjit
