#include "graph/infer.h"

#include <set>

#include "ops/op.h"
#include "ops/sequence/sequence.h"

namespace deepjit {

namespace {

class NodeInfer final : public InferContext {
 public:
  explicit NodeInfer(Node& node) : node_(node) {}

  const Attributes& attrs() const override { return node_.attrs; }
  int num_inputs() const override { return static_cast<int>(node_.inputs.size()); }
  bool has_input(int i) const override { return i >= 0 && node_.input(static_cast<size_t>(i)) != nullptr; }
  const TensorType& input(int i) const override {
    check_internal(has_input(i), "shape rule of " + node_.op + " reads an omitted input");
    return node_.inputs[static_cast<size_t>(i)]->type;
  }
  const Tensor* input_data(int i) const override {
    if (!has_input(i)) return nullptr;
    const Value* v = node_.inputs[static_cast<size_t>(i)];
    return v->is_constant() ? &v->constant : nullptr;
  }
  const std::vector<Dim>* input_values(int i) const override {
    if (!has_input(i)) return nullptr;
    const Value* v = node_.inputs[static_cast<size_t>(i)];
    return v->values ? &*v->values : nullptr;
  }
  int num_outputs() const override { return static_cast<int>(node_.outputs.size()); }
  using InferContext::set_output;
  void set_output(int i, TensorType type) override {
    if (Value* v = node_.output(static_cast<size_t>(i))) v->type = std::move(type);
  }
  void set_output_values(int i, std::vector<Dim> values) override {
    if (Value* v = node_.output(static_cast<size_t>(i))) v->values = std::move(values);
  }
  Dim fresh_dim() override { return node_.graph->fresh_dim(); }

 private:
  Node& node_;
};

// A branch that contradicts shapes learnt since it was typed is one that these shapes never take: it keeps
// the types it has.
void infer_branch(Graph& branch) {
  try {
    infer_types(branch);
  } catch (const Error&) {
    bool typed = true;
    for_each_graph(branch, [&](Graph& graph) {
      graph.for_each_value([&](const Value* value) { typed = typed && value->type.dtype != DType::UNDEFINED; });
    });
    if (!typed) throw;
  }
}

void infer_if(Node& node) {
  for (const auto& body : node.bodies) infer_branch(*body);
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const TensorType& a = node.bodies[0]->outputs[i]->type;
    const TensorType& b = node.bodies[1]->outputs[i]->type;
    TensorType both = common_type(
        a, b, [&] { return node.graph->fresh_dim(); }, "output " + std::to_string(i) + ", the two branches");
    if (node.outputs[i] != nullptr) node.outputs[i]->type = std::move(both);
  }
}

// What is assumed of a carried value while its body is typed.
class Carried {
 public:
  explicit Carried(TensorType initial) : type_(std::move(initial)) {}
  const TensorType& type() const { return type_; }

  // Gives up what `out`, the type after an iteration, contradicts, or all that is not settled; true when that changed
  // anything. A dim that may change becomes a symbol of its own, and a changing rank makes the value unranked.
  bool loosen(Graph& graph, const TensorType& out, bool all) { return loosen(graph, type_, out, all); }

 private:
  bool loosen(Graph& graph, TensorType& type, const TensorType& out, bool all) {
    if (out.dtype != type.dtype) {
      throw Error(Code::TYPE, "enters as " + type_.to_string() + " and leaves as " + out.to_string());
    }
    bool changed = false;
    const bool same_rank = out.shape.ranked() && type.shape.ranked() && out.shape.rank() == type.shape.rank();
    if (type.shape.ranked() && (!same_rank || (all && type.element == nullptr))) {
      type.shape = Shape();
      changed = true;
    }
    for (int i = 0; type.shape.ranked() && i < type.shape.rank(); ++i) {
      Dim& dim = type.shape[i];
      if (freed_.count(dim.to_string()) != 0 || (!all && dim == out.shape[i])) continue;
      dim = graph.fresh_dim();
      freed_.insert(dim.to_string());
      changed = true;
    }
    if (type.element != nullptr) {
      TensorType element = *type.element;
      if (loosen(graph, element, *out.element, all)) {
        type.element = std::make_shared<const TensorType>(std::move(element));
        changed = true;
      }
    }
    return changed;
  }

  TensorType type_;
  std::set<std::string> freed_;  // symbols that stand for any size
};

// Values carried from one iteration to the next: body inputs [input, input + initial.size()) and body
// outputs [output, ...). Returns the types that hold after any number of iterations.
std::vector<TensorType> settle_carried(Graph& body, size_t input, size_t output,
                                       const std::vector<TensorType>& initial) {
  constexpr int kRounds = 4;  // then everything is given up, so that a long chain of values costs no more
  std::vector<Carried> carried(initial.begin(), initial.end());
  for (int round = 0;; ++round) {
    for (size_t i = 0; i < carried.size(); ++i) body.inputs[input + i]->type = carried[i].type();
    infer_types(body);
    bool stable = true;
    for (size_t i = 0; i < carried.size(); ++i) {
      try {
        stable = !carried[i].loosen(body, body.outputs[output + i]->type, round == kRounds) && stable;
      } catch (const Error& e) {
        throw e.with_prefix("carried value \"" + body.inputs[input + i]->name + "\" ");
      }
    }
    if (stable) break;
  }
  std::vector<TensorType> settled;
  for (const Carried& value : carried) settled.push_back(value.type());
  return settled;
}

// Values that are stacked must be tensors: a sequence has no elements of one size.
void expect_stackable(const TensorType& type, const std::string& what) {
  if (!is_collection(type.dtype)) return;
  throw Error(Code::TYPE, what + " is " + type.to_string() + ", only tensors can be scanned or stacked");
}

void infer_loop(Node& node) {
  Graph& body = *node.bodies[0];
  const size_t carried = body.inputs.size() - 2;
  body.inputs[0]->type = {DType::INT64, Shape(std::vector<Dim>{})};
  body.inputs[1]->type = {DType::BOOL, Shape(std::vector<Dim>{})};
  std::vector<TensorType> initial;
  for (size_t i = 0; i < carried; ++i) initial.push_back(node.inputs[2 + i]->type);
  const std::vector<TensorType> settled = settle_carried(body, 2, 1, initial);
  const Dim trips = node.graph->fresh_dim();
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i] == nullptr) continue;
    if (i < carried) {
      node.outputs[i]->type = settled[i];
      continue;
    }
    const TensorType& out = body.outputs[1 + i]->type;
    expect_stackable(out, "scan output " + std::to_string(i - carried));
    Shape shape;
    if (out.shape.ranked()) {
      std::vector<Dim> dims = {trips};
      dims.insert(dims.end(), out.shape.dims().begin(), out.shape.dims().end());
      shape = Shape(std::move(dims));
    }
    node.outputs[i]->type = {out.dtype, std::move(shape)};
  }
}

void infer_scan(Node& node) {
  Graph& body = *node.bodies[0];
  const auto scans = static_cast<size_t>(node.attrs.require_int("num_scan_inputs"));
  const size_t carried = body.inputs.size() - scans;
  const std::vector<int64_t> in_axes = node.attrs.get_ints("scan_input_axes");
  const std::vector<int64_t> out_axes = node.attrs.get_ints("scan_output_axes");
  Dim length = node.graph->fresh_dim();
  std::vector<TensorType> initial;
  for (size_t i = 0; i < carried; ++i) {
    expect_stackable(node.inputs[i]->type, "state " + std::to_string(i));
    initial.push_back(node.inputs[i]->type);
  }
  for (size_t i = 0; i < scans; ++i) {
    const TensorType& in = node.inputs[carried + i]->type;
    expect_stackable(in, "scan input " + std::to_string(i));
    TensorType item{in.dtype, Shape()};
    if (in.shape.ranked()) {
      const int axis = normalize_axis(i < in_axes.size() ? in_axes[i] : 0, in.shape.rank(), "scan_input_axes");
      std::vector<Dim> dims = in.shape.dims();
      length = dims[static_cast<size_t>(axis)];
      dims.erase(dims.begin() + axis);
      item.shape = Shape(std::move(dims));
    }
    body.inputs[carried + i]->type = std::move(item);
  }
  const std::vector<TensorType> settled = settle_carried(body, 0, 0, initial);
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i] == nullptr) continue;
    if (i < carried) {
      node.outputs[i]->type = settled[i];
      continue;
    }
    const TensorType& out = body.outputs[i]->type;
    expect_stackable(out, "scan output " + std::to_string(i - carried));
    Shape shape;
    if (out.shape.ranked()) {
      std::vector<Dim> dims = out.shape.dims();
      const size_t k = i - carried;
      const int axis = normalize_axis(k < out_axes.size() ? out_axes[k] : 0, out.shape.rank() + 1, "scan_output_axes");
      dims.insert(dims.begin() + axis, length);
      shape = Shape(std::move(dims));
    }
    node.outputs[i]->type = {out.dtype, std::move(shape)};
  }
}

// Sequences and optionals go to the ops made for them; the rest takes tensors only.
void check_collections(const Node& node) {
  if (takes_collections(node.op)) return;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const Value* in = node.inputs[i];
    if (in == nullptr || !is_collection(in->type.dtype)) continue;
    throw Error(Code::TYPE, "input " + std::to_string(i) + " must be a tensor, got " + in->type.to_string());
  }
}

void check_arity(const Node& node, const OpDef& def) {
  const int inputs = static_cast<int>(node.inputs.size());
  const int outputs = static_cast<int>(node.outputs.size());
  if (inputs < def.min_inputs || inputs > def.max_inputs) {
    throw Error(Code::ARITY, "has " + std::to_string(inputs) + " inputs, expected " +
                                 (inputs < def.min_inputs ? "at least " + std::to_string(def.min_inputs)
                                                          : "at most " + std::to_string(def.max_inputs)));
  }
  if (outputs < 1 || outputs > def.max_outputs) {
    throw Error(Code::ARITY,
                "has " + std::to_string(outputs) + " outputs, expected 1 to " + std::to_string(def.max_outputs));
  }
  for (int i = 0; i < def.min_inputs; ++i) {
    if (node.inputs[static_cast<size_t>(i)] == nullptr) {
      throw Error(Code::ARITY, "input " + std::to_string(i) + " is required");
    }
  }
}

}  // namespace

void infer_node(Node& node) {
  try {
    if (node.op == "If") return infer_if(node);
    if (node.op == "Loop") return infer_loop(node);
    if (node.op == "Scan") return infer_scan(node);
    const OpDef& def = find_op(node.op);
    check_arity(node, def);
    check_collections(node);
    for (Value* out : node.outputs) {
      if (out != nullptr) out->values.reset();
    }
    NodeInfer context(node);
    def.infer(context);
    for (const Value* out : node.outputs) {
      check_internal(out == nullptr || out->type.dtype != DType::UNDEFINED, "shape rule left an output without type");
      if (out != nullptr && out->type.shape.ranked() && out->type.shape.rank() > kMaxRank) {
        throw Error(Code::LIMIT, "a result of rank " + std::to_string(out->type.shape.rank()) + ": rank above " +
                                     std::to_string(kMaxRank) + " is not supported");
      }
    }
  } catch (const Error& e) {
    if (!node.bodies.empty()) throw;  // an inner node is named already
    throw e.with_prefix("node \"" + node.name + "\" (" + node.op + "): ");
  }
}

void infer_types(Graph& graph) {
  for (const auto& node : graph.nodes()) infer_node(*node);
}

}  // namespace deepjit
