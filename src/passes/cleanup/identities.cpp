#include "passes/cleanup/identities.h"

#include <algorithm>
#include <limits>
#include <map>

#include "ops/op.h"
#include "passes/edit.h"

namespace deepjit {

namespace {

// A rule returns the value that the node's first output equals, or nullptr. Types are compared by the
// caller.
using Rule = Value* (*)(const Node&);

Value* first_input(const Node& node) { return node.input(0); }

Value* neutral_right(const Node& node, double neutral) {
  return all_equal(node.input(1), neutral) ? node.input(0) : nullptr;
}

Value* neutral_either(const Node& node, double neutral) {
  if (Value* x = neutral_right(node, neutral)) return x;
  return all_equal(node.input(0), neutral) ? node.input(1) : nullptr;
}

Value* only_input(const Node& node) { return node.inputs.size() == 1 ? node.input(0) : nullptr; }

// Max or Min of one value, or with a bound that never binds.
Value* bounded(const Node& node, double infinity) {
  if (node.inputs.size() == 1) return node.input(0);
  return node.inputs.size() == 2 && is_float(node.output()->type.dtype) ? neutral_either(node, infinity) : nullptr;
}

Value* dropout(const Node& node) {
  const Value* training = node.input(2);
  const bool inference = training == nullptr || is_scalar(training, 0);
  const bool mask_unused = node.output(1) == nullptr || Graph::use_count(node.output(1)) == 0;
  return inference && mask_unused ? node.input(0) : nullptr;
}

Value* transpose(const Node& node) {
  const std::vector<int64_t> perm = node.attrs.get_ints("perm");
  if (!node.attrs.has("perm"))
    return ranked(node.input(0)) && node.input(0)->type.shape.rank() < 2 ? node.input(0) : nullptr;
  return std::is_sorted(perm.begin(), perm.end()) ? node.input(0) : nullptr;
}

// Equal shapes and no negative step: the slice is the whole.
Value* slice(const Node& node) {
  if (node.input(4) == nullptr) return node.input(0);
  const auto steps = known_ints(node.input(4));
  return steps && std::all_of(steps->begin(), steps->end(), [](int64_t s) { return s > 0; }) ? node.input(0) : nullptr;
}

Value* pad(const Node& node) {
  const auto pads = known_ints(node.input(1));
  return pads && std::all_of(pads->begin(), pads->end(), [](int64_t p) { return p == 0; }) ? node.input(0) : nullptr;
}

Value* clip(const Node& node) {
  const auto no_bound = [&](size_t i, double infinity) {
    return node.input(i) == nullptr || is_scalar(node.input(i), infinity);
  };
  const double infinity = std::numeric_limits<double>::infinity();
  return no_bound(1, -infinity) && no_bound(2, infinity) ? node.input(0) : nullptr;
}

// f(f(x)) == x.
Value* involution(const Node& node) {
  const Node* inner = producer_of(node.input(0), node.op);
  return inner != nullptr ? inner->input(0) : nullptr;
}

// f(f(x)) == f(x).
Value* idempotent(const Node& node) { return producer_of(node.input(0), node.op) != nullptr ? node.input(0) : nullptr; }

Value* resize(const Node& node) {
  if (node.attrs.get_string("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize") return nullptr;
  const bool by_sizes = node.input(3) != nullptr;
  return by_sizes || all_equal(node.input(2), 1) ? node.input(0) : nullptr;
}

Value* where(const Node& node) {
  if (all_equal(node.input(0), 1)) return node.input(1);
  return all_equal(node.input(0), 0) ? node.input(2) : nullptr;
}

const std::map<std::string, Rule>& rules() {
  static const std::map<std::string, Rule> table = {
      {"Identity", first_input},
      {"Dropout", dropout},
      {"Add", [](const Node& n) { return neutral_either(n, 0); }},
      {"Sub", [](const Node& n) { return neutral_right(n, 0); }},
      {"Mul", [](const Node& n) { return neutral_either(n, 1); }},
      {"Div", [](const Node& n) { return neutral_right(n, 1); }},
      {"Pow", [](const Node& n) { return neutral_right(n, 1); }},
      {"Or", [](const Node& n) { return neutral_either(n, 0); }},
      {"And", [](const Node& n) { return neutral_either(n, 1); }},
      {"Where", where},
      {"Cast", first_input},
      {"CastLike", first_input},
      {"Expand", first_input},
      {"Tile", first_input},
      {"Split", [](const Node& n) { return n.outputs.size() == 1 ? n.input(0) : nullptr; }},
      {"Slice", slice},
      {"Pad", pad},
      {"Clip", clip},
      {"Transpose", transpose},
      {"Resize", resize},
      {"Concat", only_input},
      {"Sum", only_input},
      {"Mean", only_input},
      {"Max", [](const Node& n) { return bounded(n, -std::numeric_limits<double>::infinity()); }},
      {"Min", [](const Node& n) { return bounded(n, std::numeric_limits<double>::infinity()); }},
      {"Neg", involution},
      {"Not", involution},
      {"BitwiseNot", involution},
      {"Abs", idempotent},
      {"Relu", idempotent},
      {"Ceil", idempotent},
      {"Floor", idempotent},
      {"Round", idempotent},
      {"Sign", idempotent},
      // Over axes of size 1 with the axes kept; the equal shapes say so.
      {"ReduceSum", first_input},
      {"ReduceMean", first_input},
      {"ReduceMax", first_input},
      {"ReduceMin", first_input},
      {"ReduceProd", first_input},
  };
  return table;
}

Value* equal_input(const Node& node) {
  Value* found = nullptr;
  const auto rule = rules().find(node.op);
  if (rule != rules().end()) {
    found = rule->second(node);
  } else if (find_op(node.op).view) {
    found = node.input(0);
  }
  return found != nullptr && (same_type(found, node.output()) || node.op == "Identity") ? found : nullptr;
}

// A Concat whose operand is a Concat along the same axis takes its operands.
bool flatten_concat(Node* node) {
  if (node->op != "Concat" || !ranked(node->output())) return false;
  const int rank = node->output()->type.shape.rank();
  const auto axis_of = [&](const Node* n) { return normalize_axis(n->attrs.get_int("axis", 0), rank); };
  std::vector<Value*> operands;
  for (Value* v : node->inputs) {
    const Node* inner = producer_of(v, "Concat");
    const bool same = inner != nullptr && only_user(v) == node && axis_of(inner) == axis_of(node);
    if (same) {
      operands.insert(operands.end(), inner->inputs.begin(), inner->inputs.end());
    } else {
      operands.push_back(v);
    }
  }
  if (operands.size() == node->inputs.size() && operands == node->inputs) return false;
  Graph& graph = *node->graph;
  graph.clear_inputs(node);
  for (Value* v : operands) graph.add_input_to(node, v);
  return true;
}

}  // namespace

bool remove_identities(Graph& graph) {
  bool changed = false;
  for (Node* node : graph.snapshot()) {
    changed = flatten_concat(node) || changed;
    if (!node->bodies.empty() || node->output() == nullptr || node->inputs.empty()) continue;
    Value* same = equal_input(*node);
    if (same == nullptr || !replaceable(node->output(), same)) continue;
    replace_value(node->output(), same);
    graph.erase(node);
    changed = true;
  }
  return changed;
}

}  // namespace deepjit
