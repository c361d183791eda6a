#include "lower/edges.h"

#include <algorithm>
#include <set>

#include "codegen/region/region.h"
#include "ops/op.h"

namespace deepjit {

namespace {

bool contains(const std::vector<int>& list, size_t i) {
  return std::find(list.begin(), list.end(), static_cast<int>(i)) != list.end();
}

class EdgeFinder {
 public:
  explicit EdgeFinder(const Graph& graph) : graph_(graph) {}

  std::vector<Edge> run() {
    for (const auto& node : graph_.nodes()) {
      reads_of(*node, *node, false);
      for (const auto& body : node->bodies) visit_body(*body, *node);
    }
    return std::move(edges_);
  }

 private:
  void visit_body(const Graph& body, const Node& owner) {
    for (const auto& inner : body.nodes()) {
      reads_of(*inner, owner, true);
      for (const auto& nested : inner->bodies) visit_body(*nested, owner);
    }
    for (const Value* v : body.outputs) add(v, owner, false, true);
  }

  void reads_of(const Node& node, const Node& consumer, bool in_body) {
    if (node.op == "Shape" || node.op == "Size") return;  // they read no data
    const std::vector<int>& shape_inputs = find_op(node.op).shape_inputs;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (i == 0 && is_alias(node.op)) continue;  // looked through
      if (node.inputs[i] != nullptr) add(node.inputs[i], consumer, contains(shape_inputs, i), in_body);
    }
  }

  void add(const Value* v, const Node& consumer, bool gives_shape, bool in_body) {
    Edge edge;
    edge.consumer = &consumer;
    edge.gives_shape = gives_shape;
    edge.in_body = in_body;
    while (v->producer != nullptr && is_alias(v->producer->op) && v->producer->input(0) != nullptr) {
      edge.views.insert(edge.views.begin(), v->producer);
      v = v->producer->input(0);
    }
    // Values of other graphs are edges there.
    if (v->producer == nullptr || v->graph != &graph_ || v->values) return;
    edge.value = v;
    edge.producer = v->producer;
    if (seen_.insert({v, &consumer}).second) edges_.push_back(std::move(edge));
  }

  const Graph& graph_;
  std::set<std::pair<const Value*, const Node*>> seen_;
  std::vector<Edge> edges_;
};

}  // namespace

std::vector<Edge> data_edges(const Graph& graph) { return EdgeFinder(graph).run(); }

Dim bytes_of(const TensorType& type, bool with_write) {
  if (!type.shape.ranked() || is_object(type.dtype)) return Dim::symbol("?");
  try {
    const auto size = static_cast<int64_t>(dtype_size(type.dtype));
    return type.shape.count() * Dim(with_write ? 2 * size : size);
  } catch (const Error&) {  // larger than anything
    return Dim::symbol("?");
  }
}

bool is_alias(const std::string& op) {
  return op == "Reshape" || op == "Flatten" || op == "Squeeze" || op == "Unsqueeze";
}

}  // namespace deepjit
