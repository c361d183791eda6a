#include "passes/cleanup/dead_code.h"

#include "ops/op.h"

namespace deepjit {

namespace {

bool unused(const Value* value) { return value == nullptr || Graph::use_count(value) == 0; }

bool all_unused(const Node& node) {
  for (const Value* out : node.outputs) {
    if (!unused(out)) return false;
  }
  return true;
}

// An If need not make what nobody reads; the branches then shrink too.
bool shrink_if(Node* node) {
  bool changed = false;
  for (size_t i = node->outputs.size(); i-- > 0;) {
    if (node->outputs.size() == 1 || !unused(node->outputs[i])) continue;
    node->graph->drop_output(node, i);
    node->outputs.erase(node->outputs.begin() + static_cast<std::ptrdiff_t>(i));
    for (const auto& body : node->bodies) body->outputs.erase(body->outputs.begin() + static_cast<std::ptrdiff_t>(i));
    changed = true;
  }
  return changed;
}

bool drop_optional_outputs(Node* node) {
  const OpDef& def = find_op(node->op);
  bool changed = false;
  for (size_t i = static_cast<size_t>(def.min_outputs); i < node->outputs.size(); ++i) {
    if (node->outputs[i] == nullptr || !unused(node->outputs[i])) continue;
    node->graph->drop_output(node, i);
    changed = true;
  }
  return changed;
}

}  // namespace

bool remove_dead_code(Graph& graph) {
  bool changed = false;
  const std::vector<Node*> nodes = graph.snapshot();
  for (auto it = nodes.rbegin(); it != nodes.rend(); ++it) {
    Node* node = *it;
    if (all_unused(*node)) {
      graph.erase(node);
      changed = true;
    } else if (node->op == "If") {
      changed = shrink_if(node) || changed;
    } else if (node->bodies.empty()) {
      changed = drop_optional_outputs(node) || changed;
    }
  }
  graph.drop_unused_constants();
  return changed;
}

}  // namespace deepjit
