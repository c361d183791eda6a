#include "graph/graph.h"

#include <algorithm>
#include <unordered_map>

namespace deepjit {

Graph& Graph::root() {
  Graph* g = this;
  while (g->parent_ != nullptr) g = g->parent_;
  return *g;
}

std::vector<Node*> Graph::snapshot() const {
  std::vector<Node*> out;
  for (const auto& node : nodes_) out.push_back(node.get());
  return out;
}

Graph::NodeList::iterator Graph::find(const Node* node) {
  return std::find_if(nodes_.begin(), nodes_.end(), [&](const auto& n) { return n.get() == node; });
}

bool Graph::contains(const Node* node) const {
  return std::any_of(nodes_.begin(), nodes_.end(), [&](const auto& n) { return n.get() == node; });
}

std::string Graph::unique_name(const std::string& wish) {
  std::unordered_set<std::string>& names = root().names_;
  const std::string base = wish.empty() ? "v" : wish;
  if (!wish.empty() && names.insert(base).second) return base;
  for (int i = 1;; ++i) {
    std::string name = base + "_" + std::to_string(i);
    if (names.insert(name).second) return name;
  }
}

Dim Graph::fresh_dim() { return Dim::symbol("?" + std::to_string(root().next_dim_++)); }

Value* Graph::new_value(const std::string& name) {
  values_.push_back(std::make_unique<Value>());
  Value* value = values_.back().get();
  value->name = unique_name(name);
  value->graph = this;
  return value;
}

Value* Graph::add_input(const std::string& name, TensorType type) {
  Value* value = new_value(name);
  value->type = std::move(type);
  inputs.push_back(value);
  return value;
}

Value* Graph::add_constant(Tensor tensor, const std::string& name) {
  Value* value = new_value(name.empty() ? "c" : name);
  value->type = {tensor.dtype(), Shape(tensor.dims())};
  if ((is_integer(tensor.dtype()) || tensor.dtype() == DType::BOOL) && tensor.dims().rank() <= 1 &&
      tensor.count() <= 1024) {
    std::vector<Dim> elements;
    for (int64_t v : tensor.to_i64()) elements.emplace_back(v);
    value->values = std::move(elements);
  }
  value->constant = std::move(tensor);
  return value;
}

Node* Graph::add_node(const std::string& op, const std::string& name, std::vector<Value*> node_inputs, Attributes attrs,
                      const std::vector<std::string>& output_names, Node* position) {
  auto owned = std::make_unique<Node>();
  Node* node = owned.get();
  node->op = op;
  node->name = name.empty() ? op : name;
  node->attrs = std::move(attrs);
  node->graph = this;
  node->origins = {node->name};
  for (Value* input : node_inputs) add_input_to(node, input);
  for (const std::string& output_name : output_names) {
    Value* out = new_value(output_name);
    out->producer = node;
    node->outputs.push_back(out);
  }
  nodes_.insert(position == nullptr ? nodes_.end() : find(position), std::move(owned));
  return node;
}

Value* Graph::insert(Node* position, const std::string& op, std::vector<Value*> node_inputs, Attributes attrs,
                     const Node* like) {
  Node* node = add_node(op, like->name, std::move(node_inputs), std::move(attrs), {""}, position);
  node->origins = like->origins;
  return node->outputs[0];
}

Graph* Graph::add_body(Node* node) {
  node->bodies.push_back(std::make_unique<Graph>());
  Graph* body = node->bodies.back().get();
  body->parent_ = this;
  body->owner_ = node;
  return body;
}

void Graph::drop_use(Value* value, Node* user) {
  if (value == nullptr) return;
  auto it = std::find(value->users.begin(), value->users.end(), user);
  check_internal(it != value->users.end(), "graph: use list out of step");
  *it = value->users.back();
  value->users.pop_back();
}

void Graph::set_input(Node* node, size_t i, Value* value) {
  drop_use(node->inputs[i], node);
  node->inputs[i] = value;
  if (value != nullptr) value->users.push_back(node);
}

void Graph::add_input_to(Node* node, Value* value) {
  node->inputs.push_back(value);
  if (value != nullptr) value->users.push_back(node);
}

void Graph::clear_inputs(Node* node) {
  for (Value* input : node->inputs) drop_use(input, node);
  node->inputs.clear();
}

void Graph::drop_output(Node* node, size_t i) {
  Value* gone = node->outputs[i];
  if (gone == nullptr) return;
  check_internal(gone->users.empty() && !is_output(gone), "graph: dropping an output that is read");
  node->outputs[i] = nullptr;
  std::erase_if(values_, [&](const auto& v) { return v.get() == gone; });
}

namespace {

void replace_outputs(Graph& graph, Value* from, Value* to) {
  std::replace(graph.outputs.begin(), graph.outputs.end(), from, to);
  for (const auto& node : graph.nodes()) {
    for (const auto& body : node->bodies) replace_outputs(*body, from, to);
  }
}

size_t count_outputs(const Graph& graph, const Value* value) {
  size_t n = static_cast<size_t>(std::count(graph.outputs.begin(), graph.outputs.end(), value));
  for (const auto& node : graph.nodes()) {
    for (const auto& body : node->bodies) n += count_outputs(*body, value);
  }
  return n;
}

}  // namespace

void Graph::replace_all_uses(Value* from, Value* to) {
  if (from == to) return;
  for (Node* user : from->users) {
    auto it = std::find(user->inputs.begin(), user->inputs.end(), from);
    check_internal(it != user->inputs.end(), "graph: use list out of step");
    *it = to;
    to->users.push_back(user);
  }
  from->users.clear();
  replace_outputs(*from->graph, from, to);
}

bool Graph::is_output(const Value* value) { return count_outputs(*value->graph, value) != 0; }

size_t Graph::use_count(const Value* value) { return value->users.size() + count_outputs(*value->graph, value); }

void Graph::detach(Node* node) {
  for (Value* input : node->inputs) drop_use(input, node);
  node->inputs.clear();
  for (const auto& body : node->bodies) {
    for (const auto& inner : body->nodes_) body->detach(inner.get());
  }
}

void Graph::erase(Node* node) {
  for (Value* out : node->outputs) {
    check_internal(out == nullptr || (out->users.empty() && !is_output(out)),
                   "graph: erasing node \"" + node->name + "\" whose output is read");
  }
  detach(node);
  std::unordered_set<const Value*> gone(node->outputs.begin(), node->outputs.end());
  std::erase_if(values_, [&](const auto& v) { return gone.count(v.get()) != 0; });
  nodes_.erase(find(node));
}

void Graph::move_before(Node* node, Node* position) { nodes_.splice(find(position), nodes_, find(node)); }

std::vector<Value*> Graph::inline_body(Node* node, size_t index) {
  Graph& body = *node->bodies[index];
  for (auto& value : body.values_) {
    value->graph = this;
    values_.push_back(std::move(value));
  }
  body.values_.clear();
  for (const auto& inner : body.nodes_) {
    inner->graph = this;
    for (const auto& nested : inner->bodies) nested->parent_ = this;
  }
  nodes_.splice(find(node), body.nodes_);
  std::vector<Value*> results = std::move(body.outputs);
  body.outputs.clear();
  return results;
}

bool Graph::before(const Node* a, const Node* b) const {
  for (const auto& node : nodes_) {
    if (node.get() == a) return a != b;
    if (node.get() == b) return false;
  }
  return false;
}

namespace {

// Producers in `graph` that `node`, or anything in its bodies, reads.
void collect_dependencies(const Graph& graph, const Node& node, std::vector<Node*>& out) {
  auto add = [&](const Value* v) {
    if (v != nullptr && v->graph == &graph && v->producer != nullptr) out.push_back(v->producer);
  };
  for (const Value* v : node.inputs) add(v);
  for (const auto& body : node.bodies) {
    for (const Value* v : body->outputs) add(v);
    for (const auto& inner : body->nodes()) collect_dependencies(graph, *inner, out);
  }
}

}  // namespace

void Graph::sort() {
  enum class State { NEW, OPEN, DONE };
  struct Frame {
    Node* node;
    std::vector<Node*> dependencies;
    size_t next = 0;
  };
  std::unordered_map<Node*, State> state;
  std::vector<Node*> order;
  std::vector<Frame> stack;
  auto open = [&](Node* node) {
    state[node] = State::OPEN;
    stack.push_back({node, {}, 0});
    collect_dependencies(*this, *node, stack.back().dependencies);
  };
  for (Node* start : snapshot()) {
    if (state[start] == State::NEW) open(start);
    while (!stack.empty()) {
      Frame& top = stack.back();
      if (top.next == top.dependencies.size()) {
        state[top.node] = State::DONE;
        order.push_back(top.node);
        stack.pop_back();
        continue;
      }
      Node* dependency = top.dependencies[top.next++];
      if (state[dependency] == State::OPEN) {
        throw Error(Code::GRAPH_CYCLE,
                    "node \"" + dependency->name + "\" (" + dependency->op + ") depends on its own output");
      }
      if (state[dependency] == State::NEW) open(dependency);
    }
  }
  std::unordered_map<Node*, NodeList::iterator> where;
  for (auto it = nodes_.begin(); it != nodes_.end(); ++it) where[it->get()] = it;
  for (Node* node : order) nodes_.splice(nodes_.end(), nodes_, where[node]);
}

void Graph::drop_unused_constants() {
  std::unordered_set<const Value*> read;
  for_each_graph(root(), [&](Graph& g) { read.insert(g.outputs.begin(), g.outputs.end()); });
  std::erase_if(values_, [&](const auto& v) { return v->is_constant() && v->users.empty() && !read.count(v.get()); });
}

}  // namespace deepjit
