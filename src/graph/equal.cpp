#include "graph/equal.h"

#include <unordered_map>

#include "graph/print.h"

namespace deepjit {

namespace {

class Matcher {
 public:
  std::string difference(const Graph& a, const Graph& b) {
    if (!match_graphs(a, b)) return difference_;
    if (count_nodes(a) != count_nodes(b)) {
      return "node counts differ: " + std::to_string(count_nodes(a)) + " and " + std::to_string(count_nodes(b)) +
             " (nodes that no output needs?)";
    }
    return "";
  }

 private:
  bool differ(const std::string& what) {
    if (difference_.empty()) difference_ = what;
    return false;
  }

  static size_t count_nodes(const Graph& graph) {
    size_t n = graph.nodes().size();
    for (const auto& node : graph.nodes()) {
      for (const auto& body : node->bodies) n += count_nodes(*body);
    }
    return n;
  }

  bool match_graphs(const Graph& a, const Graph& b) {
    if (a.inputs.size() != b.inputs.size()) return differ("numbers of inputs differ");
    if (a.outputs.size() != b.outputs.size()) return differ("numbers of outputs differ");
    for (size_t i = 0; i < a.inputs.size(); ++i) {
      const Value* x = a.inputs[i];
      const Value* y = b.inputs[i];
      const bool outermost = a.parent() == nullptr;
      if (outermost && x->type != y->type) {
        return differ("input " + std::to_string(i) + ": " + x->type.to_string() + " and " + y->type.to_string());
      }
      if (x->default_value.defined() != y->default_value.defined() ||
          (x->default_value.defined() && !x->default_value.same_as(y->default_value))) {
        return differ("input " + std::to_string(i) + ": default values differ");
      }
      bind(x, y);
    }
    for (size_t i = 0; i < a.outputs.size(); ++i) {
      if (!match(a.outputs[i], b.outputs[i])) return false;
    }
    return true;
  }

  void bind(const Value* a, const Value* b) {
    forward_[a] = b;
    backward_[b] = a;
  }

  static std::string show(const Value* v) {
    if (v == nullptr) return "an omitted value";
    if (v->is_constant()) return "constant %" + v->name + " " + v->type.to_string();
    if (v->producer == nullptr) return "input %" + v->name;
    return "`" + print_node(*v->producer) + "`";
  }

  bool match(const Value* a, const Value* b) {
    if (a == nullptr || b == nullptr) return a == b || differ(show(a) + " and " + show(b) + " differ");
    const auto known = forward_.find(a);
    if (known != forward_.end()) return known->second == b || differ(show(a) + " and " + show(b) + " differ");
    if (a->is_constant() && b->is_constant()) {
      return a->constant.same_as(b->constant) || differ(show(a) + " and " + show(b) + " differ in data or type");
    }
    if (backward_.count(b) != 0 || a->producer == nullptr || b->producer == nullptr) {
      return differ(show(a) + " and " + show(b) + " differ");
    }
    return match_nodes(*a->producer, *b->producer, a, b);
  }

  static bool unused(const Value* v) { return v == nullptr || Graph::use_count(v) == 0; }

  bool match_nodes(const Node& a, const Node& b, const Value* va, const Value* vb) {
    const std::string both = show(va) + " and " + show(vb) + " differ in ";
    if (a.op != b.op) return differ(both + "op");
    if (!(a.attrs == b.attrs)) return differ(both + "attributes");
    if (a.inputs.size() != b.inputs.size()) return differ(both + "number of inputs");
    if (a.outputs.size() != b.outputs.size()) return differ(both + "number of outputs");
    if (a.bodies.size() != b.bodies.size()) return differ(both + "number of bodies");
    for (size_t i = 0; i < a.outputs.size(); ++i) {
      if ((a.outputs[i] == va) != (b.outputs[i] == vb)) return differ(both + "the output that is read");
      if (unused(a.outputs[i]) != unused(b.outputs[i])) return differ(both + "the outputs that are read");
      if (a.outputs[i] != nullptr && b.outputs[i] != nullptr) bind(a.outputs[i], b.outputs[i]);
    }
    for (size_t i = 0; i < a.inputs.size(); ++i) {
      if (!match(a.inputs[i], b.inputs[i])) return false;
    }
    for (size_t i = 0; i < a.bodies.size(); ++i) {
      if (!match_graphs(*a.bodies[i], *b.bodies[i])) return false;
    }
    return true;
  }

  std::unordered_map<const Value*, const Value*> forward_;
  std::unordered_map<const Value*, const Value*> backward_;
  std::string difference_;
};

}  // namespace

std::string graph_difference(const Graph& a, const Graph& b) { return Matcher().difference(a, b); }

}  // namespace deepjit
