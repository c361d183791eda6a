// The tensor graph: SSA values, nodes in topological order, nested bodies for control flow.
//
// A Graph owns its values and nodes. The bodies of If, Loop and Scan are Graphs of their own that may read
// any value of the graphs around them directly (outer-scope values); such a read counts as a use. Names are
// unique over the outermost graph and all bodies. Optional inputs and outputs that are left out are nullptr.
// Passes keep every invariant that verify() (graph/verify.h) states.
#pragma once

#include <list>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/attributes.h"
#include "base/dim.h"
#include "base/tensor.h"

namespace deepjit {

class Graph;
struct Node;

struct Value {
  std::string name;
  TensorType type;
  Graph* graph = nullptr;                  // the owner
  Node* producer = nullptr;                // nullptr for inputs and constants
  Tensor constant;                         // defined for constants only
  Tensor default_value;                    // graph inputs only: the initializer of the same name, used when not fed
  std::optional<std::vector<Dim>> values;  // elements of an integer tensor of rank 0 or 1, when known
  std::vector<Node*> users;                // one entry per use, in no order; graph outputs are not users

  bool is_constant() const { return constant.defined(); }
  bool is_input() const { return producer == nullptr && !is_constant(); }
};

struct Node {
  std::string op;    // canonical op name, see ops/op.h
  std::string name;  // the ONNX node's name, or a made-up one
  Attributes attrs;
  std::vector<Value*> inputs;
  std::vector<Value*> outputs;
  std::vector<std::unique_ptr<Graph>> bodies;  // If: then, else; Loop, Scan: body
  Graph* graph = nullptr;
  std::vector<std::string> origins;  // ONNX nodes this one came from; never empty after import

  Value* input(size_t i) const { return i < inputs.size() ? inputs[i] : nullptr; }
  Value* output(size_t i = 0) const { return i < outputs.size() ? outputs[i] : nullptr; }
};

class Graph {
 public:
  using NodeList = std::list<std::unique_ptr<Node>>;

  Graph() = default;
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  std::string name;  // of the outermost graph
  std::vector<Value*> inputs;
  std::vector<Value*> outputs;

  const NodeList& nodes() const { return nodes_; }
  // The nodes as plain pointers, in order: a snapshot to walk while nodes are inserted or erased
  // (erased nodes dangle: check with contains).
  std::vector<Node*> snapshot() const;
  bool contains(const Node* node) const;
  Graph* parent() const { return parent_; }  // nullptr for the outermost graph
  Node* owner() const { return owner_; }     // the If, Loop or Scan this is a body of
  Graph& root();

  // A name that is empty or taken is made unique ("relu_1").
  Value* add_input(const std::string& name, TensorType type);
  Value* add_constant(Tensor tensor, const std::string& name = "");

  // Appends a node (before `position` when given); `output_names` fixes the outputs' count and names, an
  // empty name makes one up. Origins default to the node's own name.
  Node* add_node(const std::string& op, const std::string& name, std::vector<Value*> inputs, Attributes attrs,
                 const std::vector<std::string>& output_names, Node* position = nullptr);
  // The common case in passes: one output, placed before `position`, name and origins taken from `like`.
  // The output's type is not set: call infer_node (graph/infer.h) on its producer.
  Value* insert(Node* position, const std::string& op, std::vector<Value*> inputs, Attributes attrs, const Node* like);
  Graph* add_body(Node* node);

  void set_input(Node* node, size_t i, Value* value);
  void add_input_to(Node* node, Value* value);  // appends an input slot
  void clear_inputs(Node* node);
  // Destroys an output that nobody reads; its slot becomes nullptr (an omitted output).
  void drop_output(Node* node, size_t i);
  // Makes every reader of `from` (nodes here and in nested bodies, and outputs of graphs) read `to`.
  static void replace_all_uses(Value* from, Value* to);
  // Removes a node whose outputs nobody reads. Its outputs are destroyed.
  void erase(Node* node);
  // Moves a node within this graph's order.
  void move_before(Node* node, Node* position);
  // Moves all nodes and values of body `index` of `node` (a node of this graph) before `node`, and returns
  // the body's outputs, now values of this graph. The uses of body inputs must have been replaced before.
  std::vector<Value*> inline_body(Node* node, size_t index);

  // True when a graph output (of this graph or a nested body) is this value.
  static bool is_output(const Value* value);
  // Uses by nodes plus uses as graph outputs.
  static size_t use_count(const Value* value);
  // Is `a` before `b` in this graph's order?
  bool before(const Node* a, const Node* b) const;
  // Restores topological order; throws Error(GRAPH_CYCLE) naming a node on the cycle.
  void sort();
  // Removes constants that nobody reads.
  void drop_unused_constants();

  std::string unique_name(const std::string& wish);
  // A symbol no one uses yet: "?1", "?2", ...
  Dim fresh_dim();

  template <typename F>
  void for_each_value(F&& f) const {
    for (const auto& v : values_) f(v.get());
  }

 private:
  Value* new_value(const std::string& name);
  NodeList::iterator find(const Node* node);
  void drop_use(Value* value, Node* user);
  void detach(Node* node);

  std::vector<std::unique_ptr<Value>> values_;
  NodeList nodes_;
  Graph* parent_ = nullptr;
  Node* owner_ = nullptr;
  std::unordered_set<std::string> names_;  // outermost graph only
  int64_t next_dim_ = 1;                   // outermost graph only
};

// Calls f(graph) for `graph` and every nested body, outermost first.
template <typename F>
void for_each_graph(Graph& graph, F&& f) {
  f(graph);
  for (const auto& node : graph.nodes()) {
    for (const auto& body : node->bodies) for_each_graph(*body, f);
  }
}

}  // namespace deepjit
