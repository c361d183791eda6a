#include "passes/layout/transposes.h"

#include "passes/edit.h"
#include "passes/layout/permutation.h"

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

// Squeeze or Unsqueeze of a Transpose: the other way round.
bool sink_below_squeeze(Node* node) {
  const bool squeeze = node->op == "Squeeze";
  if (!squeeze && node->op != "Unsqueeze") return false;
  Node* transpose = producer_of(node->input(0), "Transpose");
  const auto axes = known_ints(node->input(1));
  if (transpose == nullptr || !axes || !ranked(node->output()) || only_user(transpose->output()) != node) return false;
  const Permutation p = perm_of(*transpose);
  const int rank = node->output()->type.shape.rank();
  const int marked_rank = squeeze ? static_cast<int>(p.size()) : rank;
  std::vector<bool> marked(static_cast<size_t>(marked_rank), false);
  for (int64_t axis : *axes) marked[static_cast<size_t>(normalize_axis(axis, marked_rank))] = true;
  Permutation order;  // of the view's result, in axes of the view before the Transpose
  std::vector<int64_t> inner_axes;
  if (squeeze) {
    std::vector<bool> gone(p.size(), false);
    for (size_t i = 0; i < p.size(); ++i) gone[static_cast<size_t>(p[i])] = marked[i];
    std::vector<int64_t> position(p.size());
    int64_t next = 0;
    for (size_t i = 0; i < p.size(); ++i) {
      position[i] = next;
      if (gone[i]) inner_axes.push_back(static_cast<int64_t>(i));
      next += gone[i] ? 0 : 1;
    }
    for (size_t i = 0; i < p.size(); ++i) {
      if (!marked[i]) order.push_back(position[static_cast<size_t>(p[i])]);
    }
  } else {
    // The new dims go to the end before the Transpose.
    int64_t added = static_cast<int64_t>(p.size());
    size_t old = 0;
    for (int i = 0; i < rank; ++i) {
      if (marked[static_cast<size_t>(i)]) inner_axes.push_back(added);
      order.push_back(marked[static_cast<size_t>(i)] ? added++ : p[old++]);
    }
  }
  if (order.size() != static_cast<size_t>(rank)) return false;
  Value* view = emit(node, node->op, {transpose->input(0), emit_ints(node, inner_axes)}, {}, node);
  if (is_identity(order)) return replace_node(node, view);
  Attributes attrs;
  attrs.set("perm", order);
  return replace_node(node, emit(node, "Transpose", {view}, std::move(attrs), transpose));
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
  bool changed = for_nodes(graph, sink_below_squeeze);
  changed = for_nodes(graph, merge_transpose) || changed;
  // Every turn leaves fewer transposed bytes; the cap only guards against sizes that were guessed badly.
  for (size_t turns = 2 * graph.nodes().size(); turns > 0 && turn_regions(graph); --turns) {
    changed = true;
    for_nodes(graph, sink_below_squeeze);
    for_nodes(graph, merge_transpose);
  }
  return for_nodes(graph, transpose_to_reshape) || changed;
}

}  // namespace deepjit
