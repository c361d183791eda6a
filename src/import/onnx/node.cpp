// One ONNX node: inputs, attributes, version and the handler that emits its canonical form.
#include "import/onnx/builder.h"
#include "import/onnx/node_import.h"
#include "import/onnx/tensor.h"
#include "import/onnx/text.h"
#include "ops/op.h"

namespace deepjit::importer {

namespace {

using onnx::AttributeProto;

// Old exporters leave the type out.
AttributeProto::AttributeType type_of(const AttributeProto& proto) {
  if (proto.type() != AttributeProto::UNDEFINED) return proto.type();
  if (proto.has_f()) return AttributeProto::FLOAT;
  if (proto.has_i()) return AttributeProto::INT;
  if (proto.has_s()) return AttributeProto::STRING;
  if (proto.has_t()) return AttributeProto::TENSOR;
  if (proto.has_g()) return AttributeProto::GRAPH;
  if (proto.has_tp()) return AttributeProto::TYPE_PROTO;
  if (proto.floats_size() > 0) return AttributeProto::FLOATS;
  if (proto.ints_size() > 0) return AttributeProto::INTS;
  if (proto.strings_size() > 0) return AttributeProto::STRINGS;
  return AttributeProto::UNDEFINED;
}

// Does the attribute hold a value of another type than it says?
bool lies(const AttributeProto& proto, AttributeProto::AttributeType type) {
  const bool scalar = proto.has_f() || proto.has_i() || proto.has_s();
  const bool list = proto.floats_size() > 0 || proto.ints_size() > 0 || proto.strings_size() > 0;
  switch (type) {
    case AttributeProto::FLOAT:
      return !proto.has_f() && (scalar || list);
    case AttributeProto::INT:
      return !proto.has_i() && (scalar || list);
    case AttributeProto::STRING:
      return !proto.has_s() && (scalar || list);
    case AttributeProto::FLOATS:
      return proto.floats_size() == 0 && (scalar || list);
    case AttributeProto::INTS:
      return proto.ints_size() == 0 && (scalar || list);
    case AttributeProto::STRINGS:
      return proto.strings_size() == 0 && (scalar || list);
    case AttributeProto::TENSOR:
      return !proto.has_t();
    case AttributeProto::GRAPH:
      return !proto.has_g();
    case AttributeProto::TYPE_PROTO:
      return !proto.has_tp();
    case AttributeProto::SPARSE_TENSOR:
      return !proto.has_sparse_tensor();
    default:
      return type == AttributeProto::UNDEFINED;
  }
}

void convert_attribute(Builder& builder, const std::string& name, const AttributeProto& proto, NodeImport& out) {
  const auto type = type_of(proto);
  if (lies(proto, type)) {
    throw Error(Code::ATTRIBUTE, "attribute " + quoted(name) + " has no value of the type it declares");
  }
  switch (type) {
    case AttributeProto::FLOAT:
      return out.attrs.set(name, proto.f());
    case AttributeProto::INT:
      return out.attrs.set(name, static_cast<int64_t>(proto.i()));
    case AttributeProto::STRING:
      return out.attrs.set(name, proto.s());
    case AttributeProto::FLOATS:
      return out.attrs.set(name, std::vector<float>(proto.floats().begin(), proto.floats().end()));
    case AttributeProto::INTS:
      return out.attrs.set(name, std::vector<int64_t>(proto.ints().begin(), proto.ints().end()));
    case AttributeProto::STRINGS:
      return out.attrs.set(name, std::vector<std::string>(proto.strings().begin(), proto.strings().end()));
    case AttributeProto::TENSOR:
      return out.attrs.set(name, tensor_from_proto(proto.t(), builder.external()));
    case AttributeProto::SPARSE_TENSOR:
      return out.attrs.set(name,
                           dense_from_sparse(proto.sparse_tensor(), builder.external(), builder.sparse_bytes_left()));
    case AttributeProto::GRAPH:
      out.graphs[name] = &proto.g();
      return;
    case AttributeProto::TYPE_PROTO:
      out.types[name] = builder.type_from_proto(proto.tp(), "attribute " + quoted(name));
      return;
    default:
      builder.note_unsupported("attribute " + quoted(name) + " of type " + std::to_string(type) + " in " + out.op);
  }
}

// An element type that ONNX has and we lack is a TYPE error here; the ops reject what is no type at all.
void check_dtype_attributes(const Attributes& attrs) {
  for (const char* name : {"to", "dtype", "output_dtype", "softmax_precision"}) {
    const auto found = attrs.all().find(name);
    if (found == attrs.all().end()) continue;
    const auto* number = std::get_if<int64_t>(&found->second);
    if (number != nullptr && *number > 0 && *number <= onnx::TensorProto::DataType_MAX) {
      dtype_from_onnx(static_cast<int>(*number));
    }
  }
}

std::string canonical_op(const std::string& domain, const std::string& op) {
  return domain.empty() ? op : domain + "." + op;
}

std::string function_key(const std::string& domain, const std::string& name, const std::string& overload) {
  return domain + '\0' + name + '\0' + overload;
}

}  // namespace

void Builder::convert_attributes(const Scope& scope, const onnx::NodeProto& proto, NodeImport& out) {
  std::unordered_set<std::string> seen;
  for (const auto& attribute : proto.attribute()) {
    check_name(attribute.name(), "attribute");
    if (!seen.insert(attribute.name()).second) {
      throw Error(Code::ATTRIBUTE, "attribute " + quoted(attribute.name()) + " is given twice");
    }
    const onnx::AttributeProto* source = &attribute;
    if (!attribute.ref_attr_name().empty()) {
      if (scope.attributes == nullptr) {
        throw Error(Code::ATTRIBUTE, "attribute " + quoted(attribute.name()) + " refers to a function's attribute " +
                                         quoted(attribute.ref_attr_name()) + " outside of a function");
      }
      const auto found = scope.attributes->find(attribute.ref_attr_name());
      if (found == scope.attributes->end()) continue;  // not given by the caller: as if absent here
      source = found->second;
    }
    try {
      convert_attribute(*this, attribute.name(), *source, out);
    } catch (const Error& e) {
      if (e.code() == Code::ATTRIBUTE) throw;
      throw e.with_prefix("attribute " + quoted(attribute.name()) + ": ");
    }
  }
}

std::vector<Value*> Builder::resolve_inputs(const Scope& scope, const onnx::NodeProto& proto) {
  std::vector<Value*> inputs;
  for (const std::string& name : proto.input()) {
    check_name(name, "input");
    inputs.push_back(name.empty() ? nullptr : resolve(scope, name));
  }
  while (!inputs.empty() && inputs.back() == nullptr) inputs.pop_back();
  return inputs;
}

int64_t Builder::opset_of(const Scope& scope, const std::string& domain) const {
  const auto found = scope.opsets->find(domain);
  if (found != scope.opsets->end()) return found->second;
  if (!domain.empty()) return 1;
  if (default_opset() == 0) throw Error(Code::OPSET, "the model imports no opset of the default domain");
  return default_opset();
}

void Builder::emit_node(Scope& scope, const onnx::NodeProto& proto, const std::string& name) {
  const std::string domain = normal_domain(proto.domain());
  check_name(domain, "domain");
  for (const std::string& output : proto.output()) check_name(output, "output");
  NodeImport node(*this, scope);
  node.op = canonical_op(domain, proto.op_type());
  node.name = name;
  node.version = opset_of(scope, domain);
  node.inputs = resolve_inputs(scope, proto);
  node.outputs.assign(proto.output().begin(), proto.output().end());
  while (!node.outputs.empty() && node.outputs.back().empty()) node.outputs.pop_back();
  current_op_ = (domain.empty() ? "ai.onnx" : domain) + "::" + proto.op_type() + " (version " +
                std::to_string(node.version) + ")";
  current_node_ = name;
  const std::string op_label = current_op_;
  const bool known = domain.empty() ? is_onnx_op(proto.op_type(), node.version) : domain != "deepjit";
  if (const onnx::FunctionProto* function = function_of(proto)) {
    return call_function(scope, proto, *function, name, std::move(node.inputs));
  }
  if (!known) {
    note_unsupported(op_label);
    return stand_in(node);
  }
  if (node.outputs.empty()) throw Error(Code::ARITY, "has no outputs");
  convert_attributes(scope, proto, node);
  check_dtype_attributes(node.attrs);
  const Handler handler = find_handler(node.op);
  try {
    if (domain.empty() && node.version < 7) translate_before_opset_7(node);
    if (const auto user_op = user_op_of(domain, proto.op_type())) {
      UserOpUse& use = user_ops_[user_op->definition.name];
      use.definition = user_op->text();
      use.nodes.push_back(name);
      import_user_op(node, *user_op);
    } else if (handler != nullptr) {
      handler(node);
    } else {
      node.finish();
    }
  } catch (const Error& e) {
    if (e.code() != Code::UNSUPPORTED_OP || error_is_named_) throw;
    note_unsupported(op_label + ": " + e.message());
    stand_in(node);
  }
}

// An operator that deepjit has itself is never a user's.
std::shared_ptr<const UserOp> Builder::user_op_of(const std::string& domain, const std::string& op_type) const {
  if (domain.empty() || is_own_op(domain, op_type)) return nullptr;
  const std::string name = domain + "::" + op_type;
  if (options_.user_op != nullptr && options_.user_op->definition.name == name) return options_.user_op;
  const auto found = known_user_ops_->find(name);
  return found == known_user_ops_->end() ? nullptr : found->second.op;
}

// Untyped values for what an unsupported node should have defined, so that the walk finds all of them.
void Builder::stand_in(NodeImport& node) {
  for (const std::string& output : node.outputs) {
    if (output.empty() || node.scope.values.count(output) != 0) continue;
    const std::string name = value_name(node.scope, output);
    define(node.scope, output, node.scope.graph->add_node(node.op, node.name, {}, {}, {name})->output(0));
  }
}

void Builder::load_functions() {
  for (const auto& function : model_.functions()) {
    check_name(function.name(), "function");
    check_name(function.domain(), "domain");
    const std::string key = function_key(normal_domain(function.domain()), function.name(), function.overload());
    if (!functions_.emplace(key, &function).second) {
      throw Error(Code::DUPLICATE_NAME, "two functions are named " + quoted(function.domain() + "." + function.name()));
    }
    OpsetMap& opsets = function_opsets_[&function];
    for (const auto& entry : function.opset_import()) opsets[normal_domain(entry.domain())] = entry.version();
  }
  check_inlined_size();
}

const onnx::FunctionProto* Builder::function_of(const onnx::NodeProto& node) const {
  const auto found = functions_.find(function_key(normal_domain(node.domain()), node.op_type(), node.overload()));
  return found == functions_.end() ? nullptr : found->second;
}

Value* NodeImport::require_input(size_t i) const {
  Value* value = input(i);
  if (value == nullptr) throw Error(Code::ARITY, "input " + std::to_string(i) + " is required");
  return value;
}

void NodeImport::set_input(size_t i, Value* value) {
  if (inputs.size() <= i) inputs.resize(i + 1, nullptr);
  inputs[i] = value;
}

void NodeImport::keep_outputs(size_t count) {
  for (size_t i = count; i < outputs.size(); ++i) {
    if (outputs[i].empty()) continue;
    throw Error(Code::UNSUPPORTED_OP, "output " + std::to_string(i) + " " + quoted(outputs[i]) + " is not supported");
  }
  if (outputs.size() > count) outputs.resize(count);
}

Value* NodeImport::constant(Tensor tensor) {
  return scope.graph->add_constant(std::move(tensor), builder.fresh_name(name + "/const"));
}

Value* NodeImport::ints(const std::vector<int64_t>& values) { return constant(Tensor::vector_i64(values)); }

Value* NodeImport::scalar_like(double value, Value* like) {
  const DType dtype = dtype_of(like);
  if (dtype != DType::UNDEFINED) return constant(scalar_of(dtype, value));
  return emit("CastLike", {constant(scalar_of(DType::FLOAT32, value)), like});
}

Value* NodeImport::emit(const std::string& canonical, std::vector<Value*> ins, Attributes attributes) {
  return emit_many(canonical, std::move(ins), std::move(attributes), 1)->output(0);
}

Node* NodeImport::emit_many(const std::string& canonical, std::vector<Value*> ins, Attributes attributes, int count) {
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) names.push_back(builder.fresh_name(name + "/" + canonical));
  return builder.add_node(scope, canonical, name, std::move(ins), std::move(attributes), names);
}

Node* NodeImport::finish(const std::string& canonical, std::vector<Value*> ins, Attributes attributes) {
  while (!ins.empty() && ins.back() == nullptr) ins.pop_back();
  std::vector<std::string> names;
  for (const std::string& output : outputs) {
    names.push_back(output.empty() ? builder.fresh_name(name + "/unused") : builder.value_name(scope, output));
  }
  Node* node = builder.add_node(scope, canonical, name, std::move(ins), std::move(attributes), names);
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].empty()) builder.define(scope, outputs[i], node->outputs[i]);
  }
  return node;
}

void NodeImport::define(size_t output, const std::string& canonical, std::vector<Value*> ins, Attributes attributes) {
  if (!has_output(output)) return;
  const std::string out = builder.value_name(scope, outputs[output]);
  Node* node = builder.add_node(scope, canonical, name, std::move(ins), std::move(attributes), {out});
  builder.define(scope, outputs[output], node->output(0));
}

void NodeImport::define_constant(size_t output, Tensor tensor) {
  if (!has_output(output)) return;
  Value* value = scope.graph->add_constant(std::move(tensor), builder.value_name(scope, outputs[output]));
  builder.define(scope, outputs[output], value);
}

void NodeImport::attribute_to_input(const std::string& attribute, size_t i) {
  const auto found = attrs.all().find(attribute);
  if (found == attrs.all().end()) return;
  if (input(i) != nullptr) throw Error(Code::ATTRIBUTE, quoted(attribute) + " is given as attribute and as input");
  std::vector<int64_t> values;
  if (const auto* one = std::get_if<int64_t>(&found->second)) {
    values = {*one};
  } else {
    values = attrs.get_ints(attribute);
  }
  attrs.erase(attribute);
  set_input(i, ints(values));
}

const Tensor* constant_of(const Value* value) {
  return value != nullptr && value->is_constant() ? &value->constant : nullptr;
}

std::optional<int> rank_of(const Value* value) {
  if (value == nullptr || !value->type.shape.ranked()) return std::nullopt;
  return value->type.shape.rank();
}

DType dtype_of(const Value* value) { return value == nullptr ? DType::UNDEFINED : value->type.dtype; }

}  // namespace deepjit::importer

namespace deepjit {

bool is_own_op(const std::string& domain, const std::string& op_type) {
  const std::string op = importer::canonical_op(domain, op_type);
  return importer::find_handler(op) != nullptr || op_registry().find(op) != nullptr;
}

}  // namespace deepjit
