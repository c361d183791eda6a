#include "passes/cleanup/refresh_types.h"

#include "graph/infer.h"

namespace deepjit {

namespace {

bool is_unknown(const Dim& dim) { return dim.is_symbol() && dim.to_string()[0] == '?'; }

struct Known {
  Value* value;
  TensorType type;
  std::optional<std::vector<Dim>> values;
};

// The value's new type, with the old one where that said more; true when something was learned.
bool merge(const Known& old) {
  Value* v = old.value;
  Shape& shape = v->type.shape;
  const Shape& before = old.type.shape;
  if (!v->values && old.values) v->values = old.values;
  if (!before.ranked()) return shape.ranked();
  if (!shape.ranked() || shape.rank() != before.rank()) {
    shape = before;
    return false;
  }
  bool learned = v->values.has_value() && !old.values.has_value();
  for (int i = 0; i < shape.rank(); ++i) {
    if (is_unknown(shape[i]) || (before[i].is_const() && !shape[i].is_const())) {
      shape[i] = before[i];
    } else if (is_unknown(before[i])) {
      learned = learned || !(shape[i] == before[i]);
    }
  }
  return learned;
}

}  // namespace

bool refresh_types(Graph& graph) {
  if (graph.parent() != nullptr) return false;  // bodies are inferred with the node they belong to
  bool learned = false;
  for (const auto& node : graph.nodes()) {
    std::vector<Known> old;
    for (Value* out : node->outputs) {
      if (out != nullptr) old.push_back({out, out->type, out->values});
    }
    infer_node(*node);
    for (const Known& known : old) learned = merge(known) || learned;
  }
  return learned;
}

}  // namespace deepjit
