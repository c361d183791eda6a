#include "passes/layout/transpose_rules.h"

#include <algorithm>
#include <set>

#include "ops/op.h"
#include "passes/edit.h"

namespace deepjit {

namespace {

bool in(const std::string& op, std::initializer_list<const char*> names) {
  return std::any_of(names.begin(), names.end(), [&](const char* n) { return op == n; });
}

bool is_reduction(const Node& node) { return node.op.rfind("Reduce", 0) == 0; }

bool keeps_dims(const Node& node) { return node.attrs.get_int("keepdims", 1) != 0; }

int rank_of(const Node& node) { return node.output()->type.shape.rank(); }

bool is_scalar_like(const Value* v) {
  if (!ranked(v)) return false;
  const auto dims = v->type.shape.as_const();
  return dims && dims->count() == 1;
}

// Every input has the result's rank, or is a constant or a single number that broadcasts.
bool pointwise_agnostic(const Node& node) {
  if (!find_op(node.op).pointwise || in(node.op, {"QuantizeLinear", "DequantizeLinear"})) return false;
  for (const Value* v : node.inputs) {
    if (v == nullptr) continue;
    if (!ranked(v) || v->type.shape.rank() > rank_of(node)) return false;
    if (v->type.shape.rank() != rank_of(node) && !v->is_constant() && !is_scalar_like(v)) return false;
  }
  return true;
}

bool operand_known(const Node& node, size_t i) {
  return node.input(i) == nullptr || known_ints(node.input(i)).has_value();
}

bool resize_agnostic(const Node& node) {
  if (node.input(1) != nullptr && node.input(1)->type.shape.ranked()) {
    const auto roi = node.input(1)->type.shape.as_const();
    if (!roi || roi->count() != 0) return false;
  }
  if (node.attrs.get_string("keep_aspect_ratio_policy", "stretch") != "stretch") return false;
  if (node.attrs.has("axes")) return true;
  if (node.input(2) != nullptr && node.input(2)->is_constant() && node.input(2)->constant.count() != 0) return true;
  return node.input(3) != nullptr && known_ints(node.input(3)).has_value();
}

}  // namespace

bool is_layout_agnostic(const Node& node) {
  if (!node.bodies.empty() || node.inputs.empty() || node.input(0) == nullptr || !ranked(node.output())) return false;
  const int rank = rank_of(node);
  if (rank < 2) return false;
  for (const Value* out : node.outputs) {
    if (!ranked(out) || out->type.shape.rank() != rank) return false;
  }
  if (pointwise_agnostic(node)) return true;
  if (!ranked(node.input(0)) || node.input(0)->type.shape.rank() != rank) return false;
  if (in(node.op, {"Split", "Softmax", "LogSoftmax", "Hardmax", "Identity"})) return true;
  if (node.op == "Concat") {
    return std::all_of(node.inputs.begin(), node.inputs.end(),
                       [&](const Value* v) { return ranked(v) && v->type.shape.rank() == rank; });
  }
  if (node.op == "Pad") return known_ints(node.input(1)).has_value() && operand_known(node, 3);
  if (node.op == "Slice") {
    const bool counted = ranked(node.input(1)) && node.input(1)->type.shape.as_const().has_value();
    return counted && operand_known(node, 3);
  }
  if (is_reduction(node)) return keeps_dims(node) && operand_known(node, 1);
  if (in(node.op, {"ArgMax", "ArgMin"})) return keeps_dims(node);
  return node.op == "Resize" && resize_agnostic(node);
}

std::vector<size_t> permuted_inputs(const Node& node) {
  std::vector<size_t> out;
  const bool all = node.op == "Concat" || (find_op(node.op).pointwise && node.op != "Clip");
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const Value* v = node.inputs[i];
    if (v == nullptr || (i > 0 && !all)) continue;
    if (node.op != "Concat" && is_scalar_like(v) && (v->is_constant() || v->type.shape.rank() < rank_of(node)))
      continue;
    out.push_back(i);
  }
  return out;
}

namespace {

int64_t map_axis(int64_t axis, const Permutation& p) {
  return p[static_cast<size_t>(normalize_axis(axis, static_cast<int>(p.size())))];
}

std::vector<int64_t> map_axes(std::vector<int64_t> axes, const Permutation& p) {
  for (int64_t& axis : axes) axis = map_axis(axis, p);
  return axes;
}

Value* emit_axes(const Node* node, DType dtype, const std::vector<int64_t>& axes) {
  if (dtype != DType::INT32) return emit_ints(node, axes);
  Tensor tensor(dtype, Dims{static_cast<int64_t>(axes.size())});
  for (size_t i = 0; i < axes.size(); ++i) tensor.as<int32_t>()[i] = static_cast<int32_t>(axes[i]);
  return emit_constant(node, tensor);
}

void map_axes_input(Node* node, size_t i, const Permutation& p) {
  const auto axes = known_ints(node->input(i));
  if (!axes || axes->empty()) return;
  node->graph->set_input(node, i, emit_axes(node, node->input(i)->type.dtype, map_axes(*axes, p)));
}

void permute_pads(Node* node, const Permutation& p) {
  const auto pads = *known_ints(node->input(1));
  const size_t rank = p.size();
  std::vector<int64_t> axes;
  if (node->input(3) != nullptr) {
    axes = *known_ints(node->input(3));
  } else {
    for (size_t i = 0; i < rank; ++i) axes.push_back(static_cast<int64_t>(i));
  }
  std::vector<int64_t> full(2 * rank, 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto to = static_cast<size_t>(map_axis(axes[i], p));
    full[to] = pads[i];
    full[to + rank] = pads[i + axes.size()];
  }
  Graph& graph = *node->graph;
  graph.set_input(node, 1, emit_ints(node, full));
  if (node->input(3) != nullptr) graph.set_input(node, 3, nullptr);
}

void permute_slice(Node* node, const Permutation& p) {
  if (node->input(3) != nullptr) return map_axes_input(node, 3, p);
  std::vector<int64_t> axes;
  const int64_t count = node->input(1)->type.shape.as_const()->count();
  for (int64_t i = 0; i < count; ++i) axes.push_back(p[static_cast<size_t>(i)]);
  Graph& graph = *node->graph;
  Value* value = emit_axes(node, node->input(1)->type.dtype, axes);
  while (node->inputs.size() < 4) graph.add_input_to(node, nullptr);
  graph.set_input(node, 3, value);
}

void permute_resize(Node* node, const Permutation& p) {
  if (node->attrs.has("axes")) {
    node->attrs.set("axes", map_axes(node->attrs.get_ints("axes"), p));
    return;
  }
  Graph& graph = *node->graph;
  if (node->input(2) != nullptr && node->input(2)->is_constant() && node->input(2)->constant.count() != 0) {
    const std::vector<double> scales = node->input(2)->constant.to_f64();
    std::vector<float> moved(scales.size());
    for (size_t i = 0; i < scales.size(); ++i) moved[static_cast<size_t>(p[i])] = static_cast<float>(scales[i]);
    const Dims dims{static_cast<int64_t>(moved.size())};
    graph.set_input(node, 2,
                    emit_constant(node, Tensor::from<float>(DType::FLOAT32, dims, std::span<const float>(moved))));
    return;
  }
  const std::vector<int64_t> sizes = *known_ints(node->input(3));
  std::vector<int64_t> moved(sizes.size());
  for (size_t i = 0; i < sizes.size(); ++i) moved[static_cast<size_t>(p[i])] = sizes[i];
  graph.set_input(node, 3, emit_ints(node, moved));
}

}  // namespace

void permute_node(Node* node, const Permutation& p) {
  if (in(node->op, {"Softmax", "LogSoftmax", "Hardmax"})) {
    node->attrs.set("axis", map_axis(node->attrs.get_int("axis", -1), p));
  } else if (in(node->op, {"Concat", "Split", "ArgMax", "ArgMin"})) {
    node->attrs.set("axis", map_axis(node->attrs.get_int("axis", 0), p));
  } else if (node->op == "Pad") {
    permute_pads(node, p);
  } else if (node->op == "Slice") {
    permute_slice(node, p);
  } else if (is_reduction(*node)) {
    if (node->input(1) != nullptr) map_axes_input(node, 1, p);
  } else if (node->op == "Resize") {
    permute_resize(node, p);
  }
}

bool absorbs_permutation(const Node& node, const Permutation& p) {
  if (!is_reduction(node) || keeps_dims(node)) return false;
  if (node.input(1) == nullptr) return true;
  const auto axes = known_ints(node.input(1));
  if (!axes || axes->empty()) return false;
  std::set<int64_t> reduced;
  for (int64_t axis : *axes) reduced.insert(normalize_axis(axis, static_cast<int>(p.size())));
  int64_t last = -1;
  for (size_t i = 0; i < p.size(); ++i) {
    if (reduced.count(static_cast<int64_t>(i)) != 0) continue;
    if (p[i] < last) return false;
    last = p[i];
  }
  return true;
}

}  // namespace deepjit
