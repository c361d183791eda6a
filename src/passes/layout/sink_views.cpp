#include "passes/layout/sink_views.h"

#include <algorithm>

#include "ops/op.h"
#include "passes/edit.h"

namespace deepjit {

namespace {

bool is_view(const Node* node) {
  return node != nullptr && (node->op == "Reshape" || node->op == "Squeeze" || node->op == "Unsqueeze");
}

// A convolution or product, seen through a Transpose.
bool can_fuse(const Value* value) {
  const Node* node = value->producer;
  if (node != nullptr && node->op == "Transpose") return can_fuse(node->input(0));
  static const char* const ops[] = {"Conv", "ConvTranspose", "MatMul", "Gemm"};
  return node != nullptr && std::any_of(std::begin(ops), std::end(ops), [&](const char* op) {
           return node->op == op || node->op == std::string("deepjit.") + op;
         });
}

// For each dim of `from` the dim of `to` that it is (-1: a 1 that `to` lacks), when the view only adds and
// drops dims of size 1.
std::optional<std::vector<int>> match_dims(const Shape& from, const Shape& to) {
  std::vector<int> out;
  int j = 0;
  for (int i = 0; i < from.rank(); ++i) {
    while (j < to.rank() && !(to[j] == from[i]) && to[j] == 1 && !(from[i] == 1)) ++j;
    if (j < to.rank() && to[j] == from[i]) {
      out.push_back(j++);
    } else if (from[i] == 1) {
      out.push_back(-1);
    } else {
      return std::nullopt;
    }
  }
  for (; j < to.rank(); ++j) {
    if (!(to[j] == 1)) return std::nullopt;
  }
  return out;
}

// A constant that broadcasts to the view's result, as one that broadcasts to the view's input.
std::optional<Tensor> operand_before(const Value* value, const Shape& from, const Shape& to) {
  if (!value->is_constant()) return std::nullopt;
  const Tensor& tensor = value->constant;
  if (tensor.count() == 1) return tensor.reshaped({});
  if (tensor.dims().rank() > to.rank()) return std::nullopt;
  const auto match = match_dims(from, to);
  if (!match) return std::nullopt;
  const int shift = to.rank() - tensor.dims().rank();
  Dims dims;
  for (int at : *match) dims.push_back(at >= shift && at >= 0 ? tensor.dims()[at - shift] : 1);
  if (dims.count() != tensor.count()) return std::nullopt;
  return tensor.reshaped(dims);
}

bool sink(Node* view) {
  if (!is_view(view) || !can_fuse(view->input(0)) || only_user(view->input(0)) != view) return false;
  Node* node = only_user(view->output());
  if (node == nullptr || !find_op(node->op).pointwise || node->outputs.size() != 1) return false;
  if (!same_type(node->output(), view->output()) || !ranked(view->input(0))) return false;
  if (std::count(node->inputs.begin(), node->inputs.end(), view->output()) != 1) return false;
  std::vector<Value*> inputs;
  for (Value* v : node->inputs) {
    if (v == view->output()) {
      inputs.push_back(view->input(0));
    } else if (v == nullptr) {
      inputs.push_back(nullptr);
    } else if (auto operand = operand_before(v, view->input(0)->type.shape, view->output()->type.shape)) {
      inputs.push_back(emit_constant(node, *operand, v->name));
    } else {
      return false;
    }
  }
  Value* earlier = emit(node, node->op, inputs, node->attrs, node);
  if (!(earlier->type == view->input(0)->type)) {
    view->graph->erase(earlier->producer);
    return false;
  }
  std::vector<Value*> view_inputs = view->inputs;
  view_inputs[0] = earlier;
  Value* result = emit(node, view->op, view_inputs, view->attrs, view);
  return replace_node(node, result);
}

}  // namespace

bool sink_views(Graph& graph) {
  bool changed = false;
  for (Node* node : graph.snapshot()) {
    // Each step leaves a new view: follow it in the next round of the group.
    if (graph.contains(node)) changed = sink(node) || changed;
  }
  return changed;
}

}  // namespace deepjit
