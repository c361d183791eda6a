#include "precision/autocast.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "graph/infer.h"
#include "passes/edit.h"
#include "precision/narrow.h"
#include "precision/op_rules.h"

namespace deepjit {

namespace {

using Kind = OpPrecision;

bool is_wide(const Value* v) { return v != nullptr && v->type.dtype == DType::FLOAT32; }

bool typed_otherwise(const Value* v) {
  return v != nullptr && is_float(v->type.dtype) && v->type.dtype != DType::FLOAT32;
}

// What a value of the original graph has become.
struct State {
  enum class Where {
    FREE,    // float32, from outside or from a node whose results may be rounded
    NARROW,  // of the 16-bit type
    ISLAND,  // float32, and what is computed from it alone should be too
  };
  Where where = Where::FREE;
  bool beyond = false;  // may not fit the 16-bit type
};

struct Decision {
  bool narrow = false;
  State results;
  std::string reason;
};

// Which readers a value has, behind ops that only move it.
struct Wanted {
  bool by_product = false;
  bool by_any = false;  // product, norm or pointwise op
};

class Autocast {
 public:
  Autocast(Graph& graph, const AutocastOptions& options, PrecisionNotes* notes)
      : graph_(graph), options_(options), notes_(notes), nodes_(graph.snapshot()) {
    for (size_t i = 0; i + 1 < nodes_.size(); ++i) next_[nodes_[i]] = nodes_[i + 1];
  }

  bool run() {
    find_wanted();
    for (Node* node : nodes_) visit(node);
    for (Node* node : nodes_) {
      for (Value* v : node->outputs) {
        if (v != nullptr && state(v).where == State::Where::NARROW) serve_outside(v);
      }
    }
    return changed_;
  }

 private:
  State state(const Value* v) const {
    const auto it = states_.find(v);
    return it == states_.end() ? State() : it->second;
  }

  void find_wanted() {
    for (size_t i = nodes_.size(); i-- > 0;) {
      const Node& node = *nodes_[i];
      const Kind kind = node_rule(node).kind;
      Wanted wanted;
      if (kind == Kind::PRODUCT) wanted = {true, true};
      if (kind == Kind::NORM || kind == Kind::PLAIN) wanted = {false, true};
      if (kind == Kind::MOVE) {
        for (const Value* out : node.outputs) {
          wanted.by_product = wanted.by_product || wanted_[out].by_product;
          wanted.by_any = wanted.by_any || wanted_[out].by_any;
        }
      }
      for (const Value* in : node.inputs) {
        wanted_[in].by_product = wanted_[in].by_product || wanted.by_product;
        wanted_[in].by_any = wanted_[in].by_any || wanted.by_any;
      }
    }
  }

  // The inputs that would take the 16-bit type.
  std::vector<size_t> data_inputs(const Node& node) const {
    std::vector<size_t> out;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const Value* v = node.inputs[i];
      const bool wide = is_wide(v) || state(v).where == State::Where::NARROW;
      if (v != nullptr && wide && is_data_input(node, i)) out.push_back(i);
    }
    return out;
  }

  const Narrowed& narrowed(const Value* constant) {
    auto [it, is_new] = narrowed_.try_emplace(constant);
    if (is_new) it->second = narrow(constant->constant, options_.type);
    return it->second;
  }

  // What is wrong with a value of the graph before: seen beyond the type, or computed from what is.
  bool beyond(const Value* v) const {
    const auto it = options_.seen.find(v->name);
    return it != options_.seen.end() ? too_large(it->second) : state(v).beyond;
  }

  bool too_large(double magnitude) const { return magnitude > kMargin * largest_of(options_.type); }

  // Bounds of a Clip may become infinite.
  static bool may_overflow(const Node& node, size_t i) { return node.op == "Clip" && i > 0; }

  // A constant that would be lost; "" when there is none.
  std::string lost_constant(const Node& node, const std::vector<size_t>& inputs, bool* overflows) {
    for (size_t i : inputs) {
      if (!node.inputs[i]->is_constant()) continue;
      const Narrowed& n = narrowed(node.inputs[i]);
      if (n.overflows && may_overflow(node, i)) continue;
      *overflows = n.overflows;
      if (n.overflows || (n.vanishes && loss_matters(node, i))) return what_is_lost(n, options_.type);
    }
    return "";
  }

  // What samples say against 16-bit results; "" when nothing.
  std::string against(const Node& node) const {
    for (const Value* out : node.outputs) {
      const auto it = out == nullptr ? options_.seen.end() : options_.seen.find(out->name);
      if (it == options_.seen.end() || !is_wide(out)) continue;
      if (too_large(it->second)) return fmt::format("seen values up to {:.2g}", it->second);
      if (it->second > 0 && it->second < smallest_of(options_.type)) {
        return fmt::format("seen no values above {:.2g}", it->second);
      }
    }
    return "";
  }

  static Decision stay(State results, std::string reason) { return {false, results, std::move(reason)}; }
  static Decision island(std::string reason) { return stay({State::Where::ISLAND, false}, std::move(reason)); }
  static Decision free(std::string reason) { return stay({State::Where::FREE, false}, std::move(reason)); }
  static Decision narrow_to(std::string_view what) { return {true, {State::Where::NARROW, false}, std::string(what)}; }

  Decision decide(const Node& node, const std::vector<size_t>& inputs) {
    const OpRule rule = node_rule(node);
    const bool passes_on =
        (rule.kind == Kind::PLAIN || rule.kind == Kind::MOVE || rule.kind == Kind::NORM) && !rule.bounded;
    const bool reads_beyond = std::any_of(inputs.begin(), inputs.end(), [&](size_t i) {
      return !node.inputs[i]->is_constant() && beyond(node.inputs[i]);
    });
    if (rule.kind == Kind::KEEP) {
      return stay({State::Where::ISLAND, reads_beyond && !rule.bounded}, std::string(rule.what));
    }
    if (std::string why = against(node); !why.empty()) return stay({State::Where::ISLAND, true}, why);
    bool overflows = false;
    if (std::string why = lost_constant(node, inputs, &overflows); !why.empty()) {
      // What such weights make is as large or as small as they are.
      return stay({State::Where::ISLAND, overflows && (passes_on || rule.kind != Kind::PLAIN)}, why);
    }
    if (reads_beyond) {
      const std::string why = "reads values that may not fit " + std::string(dtype_name(options_.type));
      return passes_on ? stay({State::Where::ISLAND, true}, why) : free(why);
    }
    if (inputs.empty()) return made_values(node);
    return rule.kind == Kind::PRODUCT ? narrow_to(rule.what) : decide_by_neighbours(node, rule, inputs);
  }

  // A node without float32 operands.
  Decision made_values(const Node& node) const {
    const Tensor* fill = node.attrs.get_tensor("value");  // of a ConstantOfShape
    if (fill != nullptr && fill->dtype() == DType::FLOAT32) {
      const Narrowed n = narrow(*fill, options_.type);
      if (n.overflows) return stay({State::Where::ISLAND, true}, what_is_lost(n, options_.type));
    }
    return free("makes values");
  }

  Decision decide_by_neighbours(const Node& node, const OpRule& rule, const std::vector<size_t>& inputs) {
    size_t narrow = 0, islands = 0, others = 0;
    for (size_t i : inputs) {
      if (node.inputs[i]->is_constant()) continue;
      const State::Where where = state(node.inputs[i]).where;
      (where == State::Where::NARROW ? narrow : where == State::Where::ISLAND ? islands : others) += 1;
    }
    if (rule.kind == Kind::MOVE) {
      Wanted wanted;
      for (const Value* out : node.outputs) {
        const auto it = wanted_.find(out);
        if (out == nullptr || it == wanted_.end()) continue;
        wanted.by_product = wanted.by_product || it->second.by_product;
        wanted.by_any = wanted.by_any || it->second.by_any;
      }
      const bool fits = islands == 0 ? narrow > 0 || wanted.by_any : wanted.by_product || (narrow > 0 && wanted.by_any);
      if (fits) return narrow_to(rule.what);
      return stay({islands > 0 ? State::Where::ISLAND : State::Where::FREE, false}, "its readers are float32");
    }
    if (islands == 0) return narrow_to(rule.what);
    if (rule.kind == Kind::NORM) return free("reads float32 values");
    return narrow + others == 0 ? island("carries on float32 values") : free("reads float32 values");
  }

  void visit(Node* node) {
    const auto is_typed = [](const std::vector<Value*>& values, const auto& narrow) {
      return std::any_of(values.begin(), values.end(),
                         [&](const Value* v) { return typed_otherwise(v) && !narrow(v); });
    };
    const auto is_ours = [&](const Value* v) { return state(v).where == State::Where::NARROW; };
    const std::vector<size_t> inputs = data_inputs(*node);
    const bool wide_result = std::any_of(node->outputs.begin(), node->outputs.end(), is_wide);
    if (op_rule(node->op).kind == Kind::SHAPE) return;
    if (is_typed(node->inputs, is_ours) || is_typed(node->outputs, is_ours)) return widen_inputs(node);
    Decision decision = decide(*node, inputs);
    if (decision.narrow && wide_result) {
      const std::string error = make_narrow(node, inputs);
      if (!error.empty()) decision = island(error);
    } else {
      decision.narrow = false;
    }
    if (!decision.narrow) widen_inputs(node);
    for (Value* out : node->outputs) {
      if (out == nullptr) continue;
      if (out->type.dtype == options_.type && decision.narrow) states_[out] = decision.results;
      if (is_wide(out) && !decision.narrow) states_[out] = decision.results;
    }
    if (wide_result) note(*node, decision);
  }

  void note(const Node& node, const Decision& decision) {
    if (notes_ == nullptr) return;
    const char* narrow = options_.type == DType::FLOAT16 ? "fp16: " : "bf16: ";
    std::vector<std::string>& names = (*notes_)[(decision.narrow ? narrow : "fp32: ") + decision.reason];
    names.insert(names.end(), node.origins.begin(), node.origins.end());
  }

  // Gives the node 16-bit inputs and results; what is wrong with that, and no change, when its shape rule refuses.
  std::string make_narrow(Node* node, const std::vector<size_t>& inputs) {
    const std::vector<Value*> before = node->inputs;
    std::vector<TensorType> types;
    for (const Value* out : node->outputs) types.push_back(out == nullptr ? TensorType() : out->type);
    for (size_t i : inputs) graph_.set_input(node, i, narrow_of(node->inputs[i], node));
    try {
      infer_node(*node);
    } catch (const Error& e) {
      for (size_t i : inputs) graph_.set_input(node, i, before[i]);
      restore(node, types, false);
      return "no 16-bit form: " + std::string(e.message());
    }
    restore(node, types, true);
    changed_ = true;
    return "";
  }

  // Shapes as they were known; inference alone may know less.
  static void restore(Node* node, const std::vector<TensorType>& types, bool keep_dtype) {
    for (size_t i = 0; i < types.size(); ++i) {
      Value* out = node->outputs[i];
      if (out == nullptr) continue;
      const DType dtype = out->type.dtype;
      out->type = types[i];
      if (keep_dtype) out->type.dtype = dtype;
    }
  }

  Value* cast(Value* v, DType to, Node* reader) {
    Node* producer = v->graph == &graph_ ? v->producer : nullptr;
    Node* position = nodes_.front();
    if (producer != nullptr) {
      const auto it = next_.find(producer);
      position = it == next_.end() ? nullptr : it->second;
    }
    const Node* like = producer != nullptr ? producer : reader;
    Attributes attrs;
    attrs.set("to", static_cast<int64_t>(to));
    Node* node = graph_.add_node("Cast", like->name, {v}, std::move(attrs), {""}, position);
    node->origins = like->origins;
    node->output()->type = {to, v->type.shape};
    changed_ = true;
    return node->output();
  }

  Value* narrow_of(Value* v, Node* reader) {
    if (state(v).where == State::Where::NARROW) return v;
    Value*& out = narrow_[v];
    if (out == nullptr && v->is_constant()) out = emit_constant(reader, narrowed(v).tensor, v->name);
    if (out == nullptr) out = cast(v, options_.type, reader);
    return out;
  }

  Value* wide_of(Value* v, Node* reader) {
    Value*& out = wide_[v];
    if (out == nullptr) out = cast(v, DType::FLOAT32, reader);
    return out;
  }

  void widen_inputs(Node* node) {
    for (size_t i = 0; i < node->inputs.size(); ++i) {
      Value* v = node->inputs[i];
      if (v != nullptr && state(v).where == State::Where::NARROW) graph_.set_input(node, i, wide_of(v, node));
    }
  }

  // Bodies and the outputs of graphs read float32.
  void serve_outside(Value* v) {
    const bool by_bodies =
        std::any_of(v->users.begin(), v->users.end(), [&](const Node* user) { return user->graph != &graph_; });
    if (!by_bodies && !Graph::is_output(v)) return;
    Value* wide = wide_of(v, v->producer);
    std::vector<std::pair<Node*, size_t>> here;
    for (Node* user : std::unordered_set<Node*>(v->users.begin(), v->users.end())) {
      for (size_t i = 0; i < user->inputs.size(); ++i) {
        if (user->graph == &graph_ && user->inputs[i] == v) here.emplace_back(user, i);
      }
    }
    if (graph_.parent() == nullptr &&
        std::find(graph_.outputs.begin(), graph_.outputs.end(), v) != graph_.outputs.end()) {
      std::swap(v->name, wide->name);
    }
    Graph::replace_all_uses(v, wide);
    for (const auto& [user, i] : here) graph_.set_input(user, i, v);
  }

  static constexpr double kMargin = 0.5;  // of the largest number: other inputs may give larger values

  Graph& graph_;
  const AutocastOptions& options_;
  PrecisionNotes* notes_;
  std::vector<Node*> nodes_;
  std::unordered_map<const Node*, Node*> next_;
  std::unordered_map<const Value*, State> states_;
  std::unordered_map<const Value*, Wanted> wanted_;
  std::unordered_map<const Value*, Narrowed> narrowed_;
  std::unordered_map<const Value*, Value*> narrow_;
  std::unordered_map<const Value*, Value*> wide_;
  bool changed_ = false;
};

bool has_product(const Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(),
                     [](const auto& node) { return op_rule(node->op).kind == Kind::PRODUCT; });
}

}  // namespace

bool autocast(Graph& graph, const AutocastOptions& options, PrecisionNotes* notes) {
  if (graph.nodes().empty() || (graph.parent() != nullptr && !has_product(graph))) return false;
  return Autocast(graph, options, notes).run();
}

void note_tf32(Graph& graph, PrecisionNotes& notes) {
  for (const auto& node : graph.nodes()) {
    if (std::none_of(node->outputs.begin(), node->outputs.end(), is_wide)) continue;
    const OpRule& rule = op_rule(node->op);
    const std::string reason = rule.kind == Kind::PRODUCT ? "tf32: " + std::string(rule.what) : "fp32: no product";
    std::vector<std::string>& names = notes[reason];
    names.insert(names.end(), node->origins.begin(), node->origins.end());
  }
}

}  // namespace deepjit
