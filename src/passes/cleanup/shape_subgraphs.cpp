#include "passes/cleanup/shape_subgraphs.h"

#include <algorithm>
#include <limits>

#include "graph/infer.h"
#include "ops/op.h"
#include "passes/edit.h"

namespace deepjit {

namespace {

// The operand's elements as expressions, when it is not a constant already.
const std::vector<Dim>* symbolic(const Value* operand) {
  return operand != nullptr && !operand->is_constant() && operand->values ? &*operand->values : nullptr;
}

void set_ints(Node* node, size_t i, const std::vector<int64_t>& values) {
  node->graph->set_input(node, i, emit_ints(node, values));
}

bool fix_reshape(Node* node) {
  const std::vector<Dim>* wanted = symbolic(node->input(1));
  const Shape& from = node->input(0)->type.shape;
  if (wanted == nullptr) return false;
  // Elements of 0 and -1 mean what they mean to Reshape: look at the result instead.
  const Shape& to = node->output()->type.shape;
  if (!to.ranked() || to.rank() != static_cast<int>(wanted->size())) return false;
  const auto target = reshape_target(from, to.dims());
  if (!target) return false;
  node->attrs.erase("allowzero");
  set_ints(node, 1, *target);
  return true;
}

// An element that equals the input's own dim keeps it: 1 says the same.
bool fix_expand(Node* node) {
  const std::vector<Dim>* wanted = symbolic(node->input(1));
  const Shape& from = node->input(0)->type.shape;
  if (wanted == nullptr || !from.ranked()) return false;
  std::vector<int64_t> target;
  const int shift = from.rank() - static_cast<int>(wanted->size());
  for (size_t i = 0; i < wanted->size(); ++i) {
    const int at = static_cast<int>(i) + shift;
    const Dim& d = (*wanted)[i];
    if (d.is_const()) {
      target.push_back(d.value());
    } else if (at >= 0 && from[at] == d) {
      target.push_back(1);
    } else {
      return false;
    }
  }
  set_ints(node, 1, target);
  return true;
}

// An end that equals the dim is "to the end".
bool fix_slice(Node* node) {
  const std::vector<Dim>* ends = symbolic(node->input(2));
  const Shape& from = node->input(0)->type.shape;
  if (ends == nullptr || !from.ranked()) return false;
  auto axes =
      node->input(3) == nullptr ? std::optional<std::vector<int64_t>>(std::in_place) : known_ints(node->input(3));
  if (!axes) return false;
  if (node->input(3) == nullptr) {
    for (size_t i = 0; i < ends->size(); ++i) axes->push_back(static_cast<int64_t>(i));
  }
  const auto steps = known_ints(node->input(4));
  if (node->input(4) != nullptr && !steps) return false;
  if (node->input(1)->type.dtype != node->input(2)->type.dtype || node->input(2)->type.dtype != DType::INT64)
    return false;
  std::vector<int64_t> target;
  for (size_t i = 0; i < ends->size(); ++i) {
    const Dim& end = (*ends)[i];
    const bool forward = !steps || (*steps)[i] > 0;
    if (end.is_const()) {
      target.push_back(end.value());
    } else if (forward && end == from[normalize_axis((*axes)[i], from.rank())]) {
      target.push_back(std::numeric_limits<int64_t>::max());
    } else {
      return false;
    }
  }
  set_ints(node, 2, target);
  return true;
}

// Sizes that are whole multiples of the input's dims are scales.
bool fix_resize(Node* node) {
  const std::vector<Dim>* sizes = symbolic(node->input(3));
  const Shape& from = node->input(0)->type.shape;
  if (sizes == nullptr || !from.ranked() || node->attrs.has("axes")) return false;
  if (static_cast<int>(sizes->size()) != from.rank()) return false;
  if (node->attrs.get_string("keep_aspect_ratio_policy", "stretch") != "stretch") return false;
  std::vector<float> scales;
  for (size_t i = 0; i < sizes->size(); ++i) {
    const auto ratio = Dim::exact_div((*sizes)[i], from[static_cast<int>(i)]);
    if (!ratio || !ratio->is_const() || ratio->value() < 1 || ratio->value() > 64) return false;
    scales.push_back(static_cast<float>(ratio->value()));
  }
  Graph& graph = *node->graph;
  const Dims dims{static_cast<int64_t>(scales.size())};
  graph.set_input(node, 2,
                  emit_constant(node, Tensor::from<float>(DType::FLOAT32, dims, std::span<const float>(scales))));
  graph.set_input(node, 3, nullptr);
  return true;
}

bool is_view(const Node* node) {
  return node != nullptr &&
         (node->op == "Reshape" || node->op == "Squeeze" || node->op == "Unsqueeze" || node->op == "Flatten");
}

// A view of a view reads the first input.
bool merge_views(Node* node) {
  if (!is_view(node) || !is_view(node->input(0)->producer)) return false;
  Value* x = node->input(0)->producer->input(0);
  const Shape& to = node->output()->type.shape;
  if (!ranked(x) || !to.ranked()) return false;
  if (x->type == node->output()->type) return replace_node(node, x);
  Value* view = emit_reshape(node, x, to.dims(), node);
  return view != nullptr && replace_node(node, view);
}

bool is_reduction(const Node* node) {
  return node != nullptr && node->op.rfind("Reduce", 0) == 0 && node->bodies.empty();
}

// The input's shape with the reduced dims as 1.
std::optional<Shape> kept_shape(const Node* node) {
  const Value* x = node->input(0);
  if (!ranked(x)) return std::nullopt;
  std::vector<Dim> dims = x->type.shape.dims();
  const auto axes = known_ints(node->input(1));
  if (!axes || axes->empty()) return std::nullopt;
  for (int64_t axis : *axes) dims[static_cast<size_t>(normalize_axis(axis, x->type.shape.rank()))] = 1;
  return Shape(std::move(dims));
}

// A reduction that drops its dims, and a view that puts them back.
bool keep_reduced_dims(Node* node) {
  Node* reduce = is_view(node) ? node->input(0)->producer : nullptr;
  if (!is_reduction(reduce) || reduce->attrs.get_int("keepdims", 1) != 0) return false;
  if (only_user(reduce->output()) != node) return false;
  const auto kept = kept_shape(reduce);
  if (!kept || !(*kept == node->output()->type.shape)) return false;
  if (!replaceable(node->output(), reduce->output())) return false;
  reduce->attrs.set("keepdims", int64_t{1});
  infer_node(*reduce);
  replace_value(node->output(), reduce->output());
  node->graph->erase(node);
  return true;
}

bool simplify(Node* node) {
  if (node->op == "Reshape" && fix_reshape(node)) return true;
  if (node->op == "Expand") return fix_expand(node);
  if (node->op == "Slice") return fix_slice(node);
  if (node->op == "Resize") return fix_resize(node);
  return keep_reduced_dims(node) || merge_views(node);
}

}  // namespace

bool simplify_shape_subgraphs(Graph& graph) {
  bool changed = false;
  for (Node* node : graph.snapshot()) {
    if (node->bodies.empty() && node->outputs.size() == 1 && node->output() != nullptr && node->input(0) != nullptr) {
      changed = simplify(node) || changed;
    }
  }
  return changed;
}

}  // namespace deepjit
