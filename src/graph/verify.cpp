#include "graph/verify.h"

#include <algorithm>
#include <unordered_map>

#include "ops/op.h"
#include "ops/sequence/sequence.h"

namespace deepjit {

namespace {

class Verifier {
 public:
  void run(const Graph& graph) {
    for (const Value* input : graph.inputs) need(input != nullptr && input->is_input(), "a graph input has a producer");
    walk(graph);
    for (const auto& [value, users] : listed_) {
      std::vector<Node*> actual = actual_[value];
      std::vector<Node*> listed = users;
      std::sort(actual.begin(), actual.end());
      std::sort(listed.begin(), listed.end());
      need(actual == listed, "the use list of %" + value->name + " is out of step");
    }
  }

 private:
  static void need(bool condition, const std::string& what) {
    if (!condition) throw Error(Code::INTERNAL, "verify: " + what);
  }

  void walk(const Graph& graph) {
    graph.for_each_value([&](const Value* v) { check_value(graph, *v); });
    for (const Value* v : graph.inputs) {
      need(v != nullptr && v->graph == &graph, "an input belongs to another graph");
      available_.insert(v);
    }
    for (const auto& node : graph.nodes()) {
      check_node(graph, *node);
      for (const auto& body : node->bodies) walk(*body);
      for (const Value* out : node->outputs) available_.insert(out);
    }
    for (const Value* v : graph.outputs) {
      need(v != nullptr, "a graph output is missing");
      need(available_.count(v) != 0, "output %" + v->name + " is not defined");
    }
    // Nothing outside this graph may read its values.
    if (graph.parent() != nullptr) graph.for_each_value([&](const Value* v) { available_.erase(v); });
  }

  void check_value(const Graph& graph, const Value& v) {
    need(!v.name.empty(), "a value has no name");
    need(names_.insert(v.name).second, "two values are called %" + v.name);
    need(v.graph == &graph, "value %" + v.name + " names another owner");
    need(v.type.dtype != DType::UNDEFINED, "value %" + v.name + " has no type");
    check_element(v, v.type);
    listed_[&v] = v.users;
    if (v.is_constant()) {
      need(v.producer == nullptr, "constant %" + v.name + " has a producer");
      need(v.type == TensorType{v.constant.dtype(), Shape(v.constant.dims())},
           "constant %" + v.name + " is " + v.constant.dims().to_string() + " but typed " + v.type.to_string());
      available_.insert(&v);
    } else if (v.producer == nullptr) {
      need(std::count(graph.inputs.begin(), graph.inputs.end(), &v) == 1,
           "value %" + v.name + " is no input, constant or node output");
    } else {
      need(v.producer->graph == &graph, "the producer of %" + v.name + " is in another graph");
      need(std::count(v.producer->outputs.begin(), v.producer->outputs.end(), &v) == 1,
           "the producer of %" + v.name + " does not list it");
    }
    if (!v.values) return;
    const Shape& shape = v.type.shape;
    need(shape.ranked() && shape.rank() <= 1, "value %" + v.name + " has known elements but is " + v.type.to_string());
    need(!shape.as_const() || shape.as_const()->count() == static_cast<int64_t>(v.values->size()),
         "value %" + v.name + " has " + std::to_string(v.values->size()) + " known elements but is " +
             v.type.to_string());
  }

  // Collections say what they hold and have one dimension; nothing else has elements with a type.
  static void check_element(const Value& v, const TensorType& type) {
    const bool collection = is_collection(type.dtype);
    need(collection == (type.element != nullptr), "value %" + v.name + " has a type that does not fit its elements");
    if (!collection) return;
    need(type.shape.ranked() && type.shape.rank() == 1, "value %" + v.name + " is a collection of rank other than 1");
    check_element(v, *type.element);
  }

  void check_node(const Graph& graph, const Node& node) {
    const std::string where = "node \"" + node.name + "\" (" + node.op + ") ";
    need(node.graph == &graph, where + "names another owner");
    need(!node.origins.empty(), where + "has no origins");
    const OpDef* def = op_registry().find(node.op);
    need(def != nullptr, where + "has an unknown op");
    const int inputs = static_cast<int>(node.inputs.size());
    const int outputs = static_cast<int>(node.outputs.size());
    need(inputs >= def->min_inputs && inputs <= def->max_inputs, where + "has a wrong number of inputs");
    need(outputs >= 1 && outputs <= def->max_outputs, where + "has a wrong number of outputs");
    for (int i = 0; i < inputs; ++i) {
      const Value* v = node.inputs[static_cast<size_t>(i)];
      need(v != nullptr || i >= def->min_inputs, where + "lacks input " + std::to_string(i));
      if (v == nullptr) continue;
      need(available_.count(v) != 0, where + "reads %" + v->name + " before it is defined");
      actual_[v].push_back(const_cast<Node*>(&node));
    }
    for (const Value* v : node.outputs) {
      need(v == nullptr || v->producer == &node, where + "lists an output it does not produce");
    }
    check_bodies(node, where);
  }

  void check_bodies(const Node& node, const std::string& where) {
    const size_t expected = node.op == "If" ? 2 : node.op == "Loop" || node.op == "Scan" ? 1 : 0;
    need(node.bodies.size() == expected, where + "has a wrong number of bodies");
    for (const auto& body : node.bodies) {
      need(body->parent() == node.graph && body->owner() == &node, where + "has a body that names another owner");
      const size_t inputs = node.op == "If"     ? 0
                            : node.op == "Loop" ? std::max<size_t>(node.inputs.size(), 2)
                                                : node.inputs.size();
      const size_t outputs = node.outputs.size() + (node.op == "Loop" ? 1 : 0);
      need(body->inputs.size() == inputs, where + "has a body with a wrong number of inputs");
      need(body->outputs.size() == outputs, where + "has a body with a wrong number of outputs");
    }
  }

  std::unordered_set<std::string> names_;
  std::unordered_set<const Value*> available_;
  std::unordered_map<const Value*, std::vector<Node*>> listed_;
  std::unordered_map<const Value*, std::vector<Node*>> actual_;
};

}  // namespace

void verify(const Graph& graph) { Verifier().run(graph); }

}  // namespace deepjit
