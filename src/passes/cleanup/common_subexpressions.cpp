#include "passes/cleanup/common_subexpressions.h"

#include <unordered_map>

#include "ops/op.h"
#include "passes/edit.h"

namespace deepjit {

namespace {

size_t mix(size_t hash, size_t value) { return (hash ^ value) * 0x100000001b3u + (hash >> 29); }

size_t hash_constant(const Tensor& t) {
  size_t hash = mix(static_cast<size_t>(t.dtype()), static_cast<size_t>(t.count()));
  if (t.dtype() == DType::STRING) return hash;
  // Large constants differ early: a prefix is enough for a bucket, equality looks at all bytes.
  const std::string_view bytes(t.as<char>(), static_cast<size_t>(std::min<int64_t>(t.bytes(), 4096)));
  return mix(hash, std::hash<std::string_view>()(bytes));
}

bool merge_constants(Graph& graph) {
  std::unordered_map<size_t, std::vector<Value*>> seen;
  bool changed = false;
  graph.for_each_value([&](Value* v) {
    if (!v->is_constant() || Graph::use_count(v) == 0) return;
    std::vector<Value*>& bucket = seen[hash_constant(v->constant)];
    for (Value* other : bucket) {
      if (!other->constant.same_as(v->constant) || !replaceable(v, other)) continue;
      replace_value(v, other);
      changed = true;
      return;
    }
    bucket.push_back(v);
  });
  return changed;
}

size_t hash_node(const Node& node) {
  size_t hash = std::hash<std::string>()(node.op);
  for (const Value* v : node.inputs) hash = mix(hash, std::hash<const void*>()(v));
  return mix(hash, node.outputs.size());
}

// Every output of `twin` that someone reads can be taken from `first`.
bool covers(const Node& first, const Node& twin) {
  if (first.op != twin.op || first.inputs != twin.inputs || first.outputs.size() != twin.outputs.size() ||
      !(first.attrs == twin.attrs)) {
    return false;
  }
  for (size_t i = 0; i < twin.outputs.size(); ++i) {
    if (twin.outputs[i] == nullptr) continue;
    if (first.outputs[i] == nullptr || !replaceable(twin.outputs[i], first.outputs[i])) return false;
  }
  return true;
}

bool merge_nodes(Graph& graph) {
  std::unordered_map<size_t, std::vector<Node*>> seen;
  bool changed = false;
  for (Node* node : graph.snapshot()) {
    if (!node->bodies.empty() || !find_op(node->op).deterministic) continue;
    std::vector<Node*>& bucket = seen[hash_node(*node)];
    bool merged = false;
    for (Node* first : bucket) {
      if (!covers(*first, *node)) continue;
      for (size_t i = 0; i < node->outputs.size(); ++i) {
        if (node->outputs[i] != nullptr) replace_value(node->outputs[i], first->outputs[i]);
      }
      graph.erase(node);
      merged = true;
      break;
    }
    changed = changed || merged;
    if (!merged) bucket.push_back(node);
  }
  return changed;
}

}  // namespace

bool merge_common_subexpressions(Graph& graph) {
  const bool constants = merge_constants(graph);
  return merge_nodes(graph) || constants;
}

}  // namespace deepjit
