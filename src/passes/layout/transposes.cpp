#include "passes/layout/transposes.h"

#include <algorithm>

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

// For each dim of `to`, how many neighbouring dims of `from` it joins; nothing when it is no such view.
std::optional<std::vector<size_t>> joined_dims(const Shape& from, const Shape& to) {
  std::vector<size_t> counts;
  int next = 0;
  for (int i = 0; i < to.rank(); ++i) {
    Dim size = next < from.rank() ? from[next] : Dim(0);
    size_t count = 1;
    for (++next; !(size == to[i]) && next < from.rank(); ++next, ++count) size = size * from[next];
    if (!(size == to[i])) return std::nullopt;
    counts.push_back(count);
  }
  return next == from.rank() ? std::optional(counts) : std::nullopt;
}

// A Transpose of a Reshape of a Transpose, where the Reshape joins dims that lie together before them all: a
// Reshape and one Transpose, or none.
bool merge_around_reshape(Node* node) {
  Node* view = node->op == "Transpose" ? producer_of(node->input(0), "Reshape") : nullptr;
  const Node* inner = view == nullptr ? nullptr : producer_of(view->input(0), "Transpose");
  if (inner == nullptr || !ranked(inner->input(0)) || !ranked(view->output())) return false;
  const Shape& source = inner->input(0)->type.shape;
  const Permutation p = perm_of(*inner);
  const auto counts = joined_dims(permute(source, p), view->output()->type.shape);
  if (!counts) return false;
  std::vector<std::pair<int64_t, Dim>> groups;  // first dim in the source, and size
  size_t next = 0;
  for (size_t count : *counts) {
    Dim size = source[static_cast<int>(p[next])];
    for (size_t i = 1; i < count; ++i) {
      if (p[next + i] != p[next] + static_cast<int64_t>(i)) return false;
      size = size * source[static_cast<int>(p[next + i])];
    }
    groups.emplace_back(p[next], size);
    next += count;
  }
  // order[i]: which dim of the view's result is dim i when they stand in the source's order.
  Permutation order(groups.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return groups[static_cast<size_t>(a)].first < groups[static_cast<size_t>(b)].first;
  });
  std::vector<Dim> dims;
  for (int64_t i : order) dims.push_back(groups[static_cast<size_t>(i)].second);
  const Permutation whole = compose(inverse(order), perm_of(*node));
  if (!is_identity(whole) && only_user(view->output()) != node) return false;
  Value* joined = emit_reshape(node, inner->input(0), dims, view);
  if (joined == nullptr) return false;
  if (is_identity(whole)) return replace_node(node, joined);
  Attributes attrs;
  attrs.set("perm", whole);
  return replace_node(node, emit(node, "Transpose", {joined}, std::move(attrs), node));
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
  changed = for_nodes(graph, merge_around_reshape) || changed;
  // Every turn leaves fewer transposed bytes; the cap only guards against sizes that were guessed badly.
  for (size_t turns = 2 * graph.nodes().size(); turns > 0 && turn_regions(graph); --turns) {
    changed = true;
    for_nodes(graph, sink_below_squeeze);
    for_nodes(graph, merge_transpose);
  }
  return for_nodes(graph, transpose_to_reshape) || changed;
}

}  // namespace deepjit
