#include <algorithm>

#include "graph/infer.h"
#include "import/onnx/builder.h"
#include "import/onnx/tensor.h"
#include "import/onnx/text.h"
#include "ops/op.h"

namespace deepjit::importer {

namespace {

constexpr int64_t kMinOpset = 1;
constexpr int64_t kMaxOpset = 26;
constexpr int64_t kMinIr = 3;
constexpr int64_t kMaxIr = 13;
constexpr int64_t kFirstIrWithDefaults = 4;

bool is_control(const std::string& op) { return op == "If" || op == "Loop" || op == "Scan"; }

// Names of initializers, each once.
std::unordered_set<std::string> initializer_names(const onnx::GraphProto& graph) {
  std::unordered_set<std::string> names;
  auto add = [&](const std::string& name) {
    check_name(name, "initializer");
    if (name.empty()) throw Error(Code::UNDEFINED_VALUE, "an initializer has no name");
    if (!names.insert(name).second) throw Error(Code::DUPLICATE_NAME, "two initializers are named " + quoted(name));
  };
  for (const auto& tensor : graph.initializer()) add(tensor.name());
  for (const auto& tensor : graph.sparse_initializer()) add(tensor.values().name());
  return names;
}

}  // namespace

Builder::Builder(const ImportOptions& options, onnx::ModelProto& model, Graph& root)
    : options_(options),
      model_(model),
      root_(root),
      external_(options),
      sparse_bytes_left_(options.max_sparse_bytes),
      known_user_ops_(registered_user_ops()) {}

int64_t Builder::default_opset() const {
  const auto found = opsets_.find("");
  return found == opsets_.end() ? 0 : found->second;
}

void Builder::load_opsets() {
  if (model_.ir_version() < kMinIr || model_.ir_version() > kMaxIr) {
    throw Error(Code::OPSET, "IR version " + std::to_string(model_.ir_version()) + " is not supported",
                "supported are IR versions 3 to 13");
  }
  for (const auto& entry : model_.opset_import()) {
    check_name(entry.domain(), "domain");
    auto [it, added] = opsets_.emplace(normal_domain(entry.domain()), entry.version());
    if (!added && it->second != entry.version()) {
      throw Error(Code::OPSET, "domain " + quoted(entry.domain()) + " is imported in two versions");
    }
  }
  if (opsets_.empty()) throw Error(Code::OPSET, "the model imports no opset");
  check_opset(opsets_, "the model");
}

void check_opset(const OpsetMap& opsets, const std::string& what) {
  const auto found = opsets.find("");
  if (found == opsets.end() || (found->second >= kMinOpset && found->second <= kMaxOpset)) return;
  throw Error(Code::OPSET, what + " imports opset " + std::to_string(found->second) + ", which is not supported",
              "supported are opsets 1 to 26; onnx.version_converter may translate the model");
}

void Builder::reserve_names(const onnx::GraphProto& graph) {
  for (const auto& info : graph.input()) root_names_.insert(info.name());
  for (const auto& tensor : graph.initializer()) root_names_.insert(tensor.name());
  for (const auto& tensor : graph.sparse_initializer()) root_names_.insert(tensor.values().name());
  for (const auto& node : graph.node()) root_names_.insert(node.output().begin(), node.output().end());
}

void Builder::build() {
  load_opsets();
  load_functions();
  const onnx::GraphProto& graph = model_.graph();
  check_name(graph.name(), "graph");
  root_.name = graph.name();
  reserve_names(graph);
  Scope scope;
  scope.graph = &root_;
  scope.opsets = &opsets_;
  add_root_inputs(scope);
  add_initializers(scope, graph);
  add_nodes(scope, graph.node());
  add_outputs(scope, graph);
  if (graph.output_size() == 0) throw Error(Code::UNDEFINED_VALUE, "the model has no outputs");
  throw_unsupported();
}

void Builder::add_root_inputs(Scope& scope) {
  const std::unordered_set<std::string> initializers = initializer_names(model_.graph());
  for (const auto& info : model_.graph().input()) {
    check_name(info.name(), "input");
    if (info.name().empty()) throw Error(Code::UNDEFINED_VALUE, "an input of the model has no name");
    if (initializers.count(info.name()) != 0 && model_.ir_version() < kFirstIrWithDefaults) continue;
    TensorType type = type_from_proto(info);
    if (type.dtype == DType::UNDEFINED && unsupported_.empty()) {
      throw Error(Code::TYPE, "input " + quoted(info.name()) + " has no element type");
    }
    define(scope, info.name(), root_.add_input(value_name(scope, info.name()), std::move(type)));
  }
}

void Builder::add_initializer(Scope& scope, const std::string& name, Tensor tensor) {
  const auto found = scope.values.find(name);
  if (found == scope.values.end()) {
    define(scope, name, scope.graph->add_constant(std::move(tensor), value_name(scope, name)));
    return;
  }
  // An initializer of an input's name is the input's default.
  Value* input = found->second;
  if (scope.graph != &root_ || scope.in_function) {
    throw Error(Code::DUPLICATE_NAME, "an input of a subgraph and an initializer are both named " + quoted(name));
  }
  if (input->type.dtype != tensor.dtype()) {
    throw Error(Code::TYPE, "input " + quoted(name) + " is declared " + std::string(dtype_name(input->type.dtype)) +
                                ", its initializer is " + std::string(dtype_name(tensor.dtype())));
  }
  const Shape& shape = input->type.shape;
  bool fits = !shape.ranked() || shape.rank() == tensor.dims().rank();
  for (int i = 0; fits && shape.ranked() && i < shape.rank(); ++i) {
    fits = !shape[i].is_const() || shape[i].value() == tensor.dims()[i];
  }
  if (!fits) {
    throw Error(Code::SHAPE_MISMATCH, "input " + quoted(name) + " is declared " + shape.to_string() +
                                          ", its initializer has shape " + tensor.dims().to_string());
  }
  input->default_value = std::move(tensor);
}

void Builder::add_initializers(Scope& scope, const onnx::GraphProto& graph) {
  initializer_names(graph);
  for (const auto& proto : graph.initializer()) {
    try {
      add_initializer(scope, proto.name(), tensor_from_proto(proto, external_));
    } catch (const Error& e) {
      throw e.with_prefix("initializer " + quoted(proto.name()) + ": ");
    }
  }
  int64_t expanded = 0;
  for (const auto& proto : graph.sparse_initializer()) expanded = checked_add(expanded, dense_bytes(proto));
  if (expanded > sparse_bytes_left_) {
    throw Error(Code::LIMIT, "the sparse initializers take " + std::to_string(expanded) +
                                 " bytes when expanded, the limit is " + std::to_string(sparse_bytes_left_));
  }
  for (const auto& proto : graph.sparse_initializer()) {
    const std::string& name = proto.values().name();
    try {
      add_initializer(scope, name, dense_from_sparse(proto, external_, sparse_bytes_left_));
    } catch (const Error& e) {
      throw e.with_prefix("sparse initializer " + quoted(name) + ": ");
    }
  }
}

// Before the order is looked at: a value that is written twice has no right order.
void Builder::check_definitions(const Scope& scope, const NodeProtos& nodes) const {
  std::unordered_set<std::string> written;
  for (const onnx::NodeProto& node : nodes) {
    for (const std::string& output : node.output()) {
      if (output.empty() || (scope.values.count(output) == 0 && written.insert(output).second)) continue;
      throw Error(Code::DUPLICATE_NAME, "node " + quoted(node.name()) + " (" + node.op_type() + ") writes the value " +
                                            quoted(output) + ", which is defined already");
    }
  }
}

void Builder::add_nodes(Scope& scope, const NodeProtos& nodes) {
  check_definitions(scope, nodes);
  for (int i : topological_order(nodes)) {
    const onnx::NodeProto& proto = nodes[i];
    check_name(proto.op_type(), "operator");
    check_name(proto.name(), "node");
    std::string name = proto.name().empty() ? proto.op_type() + "_" + std::to_string(i) : proto.name();
    if (scope.in_function || proto.name().empty()) name = shortened(scope.prefix + name);
    const std::string label = "node " + quoted(name) + " (" + proto.op_type() + "): ";
    try {
      emit_node(scope, proto, name);
    } catch (const Error& e) {
      if (error_is_named_) throw;
      error_is_named_ = true;
      throw e.with_prefix(label);
    }
  }
}

void Builder::add_outputs(Scope& scope, const onnx::GraphProto& graph) {
  std::unordered_set<std::string> seen;
  for (const auto& info : graph.output()) {
    const std::string& name = info.name();
    check_name(name, "output");
    if (scope.graph == &root_ && !seen.insert(name).second) {
      throw Error(Code::DUPLICATE_NAME, "two outputs are named " + quoted(name));
    }
    Value* value = name.empty() ? nullptr : resolve(scope, name);
    if (value == nullptr) throw Error(Code::UNDEFINED_VALUE, "output " + quoted(name) + " is defined by no node");
    scope.graph->outputs.push_back(value);
  }
}

void Builder::enter_graph(bool loop) {
  if (++depth_ > options_.max_depth || (loop_depth_ += loop) > options_.max_loop_depth) {
    throw Error(Code::DEPTH, loop_depth_ > options_.max_loop_depth ? "Loop and Scan nest too deep"
                                                                   : "subgraphs and function calls nest too deep");
  }
}

Graph* Builder::add_body(Scope& scope, Node* node, const onnx::GraphProto& proto,
                         const std::vector<TensorType>& input_types) {
  const bool loop = node->op != "If";
  enter_graph(loop);
  Scope inner;
  inner.parent = &scope;
  inner.graph = scope.graph->add_body(node);
  inner.opsets = scope.opsets;
  inner.attributes = scope.attributes;
  inner.in_function = scope.in_function;
  inner.prefix = shortened(node->name) + "/" + (node->bodies.size() == 1 ? "" : "else/");
  inner.graph->name = proto.name();
  const std::unordered_set<std::string> initializers = initializer_names(proto);
  size_t i = 0;
  for (const auto& info : proto.input()) {
    check_name(info.name(), "input");
    if (initializers.count(info.name()) != 0 && model_.ir_version() < kFirstIrWithDefaults) continue;
    TensorType type = i < input_types.size() ? input_types[i] : TensorType{};
    if (type.dtype == DType::UNDEFINED) type = loose_type(type_from_proto(info));
    define(inner, info.name(), inner.graph->add_input(value_name(inner, info.name()), std::move(type)));
    ++i;
  }
  add_initializers(inner, proto);
  add_nodes(inner, proto.node());
  add_outputs(inner, proto);
  --depth_;
  loop_depth_ -= loop;
  return inner.graph;
}

std::vector<Value*> Builder::fill_loop_body(Scope& scope, const onnx::GraphProto& proto) {
  enter_graph(true);
  add_initializers(scope, proto);
  add_nodes(scope, proto.node());
  std::vector<Value*> outputs;
  for (const auto& info : proto.output()) {
    check_name(info.name(), "output");
    Value* value = info.name().empty() ? nullptr : resolve(scope, info.name());
    if (value == nullptr)
      throw Error(Code::UNDEFINED_VALUE, "output " + quoted(info.name()) + " is defined by no node");
    outputs.push_back(value);
  }
  --depth_;
  --loop_depth_;
  return outputs;
}

std::string Builder::fresh_name(const std::string& wish) {
  if (root_names_.count(wish) == 0 && taken_.insert(wish).second) return wish;
  for (int64_t& i = next_suffix_[wish];;) {
    std::string name = wish + "_" + std::to_string(++i);
    if (root_names_.count(name) == 0 && taken_.insert(name).second) return name;
  }
}

std::string Builder::value_name(Scope& scope, const std::string& name) {
  if (scope.prefix.empty()) return name;
  const auto renamed = scope.rename.find(name);
  if (renamed != scope.rename.end()) return renamed->second;
  if (scope.in_function || root_names_.count(name) != 0) return fresh_name(shortened(scope.prefix + name));
  return fresh_name(shortened(name));
}

void Builder::define(Scope& scope, const std::string& name, Value* value) {
  if (!scope.values.emplace(name, value).second) {
    throw Error(Code::DUPLICATE_NAME, "the value " + quoted(name) + " is defined twice");
  }
}

Value* Builder::resolve(const Scope& scope, const std::string& name) const {
  for (const Scope* s = &scope; s != nullptr; s = s->parent) {
    const auto found = s->values.find(name);
    if (found != s->values.end()) return found->second;
  }
  throw Error(Code::UNDEFINED_VALUE, "the value " + quoted(name) + " is defined nowhere");
}

void Builder::count_node() {
  int64_t times_typed = 1;
  for (int level = 0; level < loop_depth_; ++level) times_typed *= 3;
  nodes_ += times_typed;
  if (nodes_ > options_.max_nodes) too_many_nodes();
}

void Builder::too_many_nodes() const {
  throw Error(Code::LIMIT, "the model has more than " + std::to_string(options_.max_nodes) +
                               " nodes when its functions are inlined and its loops counted three times");
}

Node* Builder::add_node(Scope& scope, const std::string& op, const std::string& name, std::vector<Value*> inputs,
                        Attributes attrs, const std::vector<std::string>& outputs) {
  count_node();
  const bool control = is_control(op);
  const OpDef* def = op_registry().find(op);
  const bool supported = control || def != nullptr;
  if (!supported) note_unsupported(current_op_);
  // A list of any length has no optional members.
  if (!control && def != nullptr && def->max_inputs == kMany) {
    const auto gap = std::find(inputs.begin(), inputs.end(), nullptr);
    if (gap != inputs.end()) {
      throw Error(Code::ARITY, "input " + std::to_string(gap - inputs.begin()) + " is required");
    }
  }
  Node* node = scope.graph->add_node(op, name, std::move(inputs), std::move(attrs), outputs);
  const bool typed = std::all_of(node->inputs.begin(), node->inputs.end(),
                                 [](const Value* v) { return v == nullptr || v->type.dtype != DType::UNDEFINED; });
  if (supported && !control && typed) {
    try {
      infer_node(*node);
    } catch (const Error&) {
      // The inference over the finished graph reports it.
    }
  }
  return node;
}

void Builder::note_unsupported(const std::string& what) {
  Missing& entry = unsupported_[what];
  if (entry.count++ == 0) entry.first_node = current_node_;
}

void Builder::throw_unsupported() const {
  if (unsupported_.empty()) return;
  std::string list;
  for (const auto& [what, entry] : unsupported_) {
    list += (list.empty() ? "" : "; ") + what;
    if (!entry.first_node.empty()) list += " in node " + quoted(entry.first_node);
    if (entry.count > 1) list += " and " + std::to_string(entry.count - 1) + " more";
  }
  const bool custom = std::any_of(unsupported_.begin(), unsupported_.end(), [](const auto& entry) {
    const std::string& what = entry.first;
    return what.find("::") != std::string::npos && what.rfind("ai.onnx", 0) != 0 && what.rfind("com.microsoft", 0) != 0;
  });
  std::string hint = custom ? "an operator that is an expression of others can be registered: docs/user_ops.md" : "";
  std::string known;
  for (const auto& [name, unused] : *known_user_ops_) known += (known.empty() ? "; registered are " : ", ") + name;
  throw Error(Code::UNSUPPORTED_OP, "not supported: " + list, custom ? hint + known : hint);
}

}  // namespace deepjit::importer
