// If, Loop and Scan: graph attributes become bodies.
#include "import/onnx/builder.h"
#include "import/onnx/node_import.h"
#include "import/onnx/text.h"

namespace deepjit::importer {

namespace {

const onnx::GraphProto& require_graph(const NodeImport& node, const std::string& name) {
  const auto found = node.graphs.find(name);
  if (found == node.graphs.end()) throw Error(Code::ATTRIBUTE, "attribute " + quoted(name) + " must be a graph");
  return *found->second;
}

void check_counts(const char* what, size_t got, size_t want) {
  if (got == want) return;
  throw Error(Code::ARITY, std::string(what) + ": " + std::to_string(got) + ", expected " + std::to_string(want));
}

// Adds the node itself, with names for all `count` outputs; its outputs are not defined yet, so that a body
// cannot read them.
Node* add_control_node(NodeImport& node, const std::string& op, size_t count, Attributes attrs) {
  if (node.outputs.size() > count) check_counts("number of outputs", node.outputs.size(), count);
  node.outputs.resize(count);
  std::vector<std::string> names;
  for (const std::string& output : node.outputs) {
    names.push_back(output.empty() ? node.builder.fresh_name(node.name + "/unused")
                                   : node.builder.value_name(node.scope, output));
  }
  return node.builder.add_node(node.scope, op, node.name, node.inputs, std::move(attrs), names);
}

void define_outputs(NodeImport& node, Node* built) {
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (!node.outputs[i].empty()) node.builder.define(node.scope, node.outputs[i], built->outputs[i]);
  }
}

// The element type is sure before the inference runs; the shape is not.
TensorType dtype_only(const Value* value) { return value == nullptr ? TensorType{} : loose_type(value->type); }

void import_if(NodeImport& node) {
  const onnx::GraphProto& then_proto = require_graph(node, "then_branch");
  const onnx::GraphProto& else_proto = require_graph(node, "else_branch");
  node.require_input(0);
  check_counts("number of inputs", node.input_count(), 1);
  check_counts("number of outputs of else_branch", static_cast<size_t>(else_proto.output_size()),
               static_cast<size_t>(then_proto.output_size()));
  Node* built = add_control_node(node, "If", static_cast<size_t>(then_proto.output_size()), {});
  const Graph* then_body = node.builder.add_body(node.scope, built, then_proto, {});
  const Graph* else_body = node.builder.add_body(node.scope, built, else_proto, {});
  check_counts("number of inputs of a branch", then_body->inputs.size() + else_body->inputs.size(), 0);
  for (size_t i = 0; i < built->outputs.size(); ++i) {
    const TensorType& type = then_body->outputs[i]->type;
    const bool same = type == else_body->outputs[i]->type;
    built->outputs[i]->type = same ? type : dtype_only(then_body->outputs[i]);
  }
  define_outputs(node, built);
}

// A carried value may enter as an optional and leave as what that holds: the body then gives back an optional, and
// the value after the loop is what it holds.
void hold_in_optionals(NodeImport& node, Node* built, Graph* body, size_t carried) {
  Scope inside;
  inside.graph = body;
  for (size_t i = 0; i < carried; ++i) {
    Value*& out = body->outputs[1 + i];
    const DType given = dtype_of(out);
    if (dtype_of(node.input(2 + i)) != DType::OPTIONAL || given == DType::OPTIONAL || given == DType::UNDEFINED)
      continue;
    const std::string name = node.builder.fresh_name(node.name + "/optional");
    out = node.builder.add_node(inside, "Optional", node.name, {out}, {}, {name})->output(0);
    Value*& after = built->outputs[i];
    after->type = loose_type(out->type);
    if (!node.has_output(i)) continue;
    Value* held = node.emit("OptionalGetElement", {after});
    std::swap(held->name, after->name);
    node.builder.define(node.scope, node.outputs[i], held);
    node.outputs[i].clear();  // it is defined now
  }
}

void import_loop(NodeImport& node) {
  const onnx::GraphProto& proto = require_graph(node, "body");
  if (proto.output_size() < 1) throw Error(Code::ARITY, "the body has no condition output");
  if (node.input_count() < 2) node.inputs.resize(2, nullptr);
  const size_t carried = node.input_count() - 2;
  std::vector<TensorType> types = {{DType::INT64, Shape(std::vector<Dim>{})}, {DType::BOOL, Shape(std::vector<Dim>{})}};
  for (size_t i = 0; i < carried; ++i) types.push_back(dtype_only(node.require_input(2 + i)));
  Node* built = add_control_node(node, "Loop", static_cast<size_t>(proto.output_size()) - 1, {});
  Graph* body = node.builder.add_body(node.scope, built, proto, types);
  check_counts("number of inputs of the body", body->inputs.size(), 2 + carried);
  if (built->outputs.size() < carried) {
    check_counts("number of outputs of the body", built->outputs.size() + 1, carried + 1);
  }
  for (size_t i = 0; i < built->outputs.size(); ++i) built->outputs[i]->type = dtype_only(body->outputs[i + 1]);
  hold_in_optionals(node, built, body, carried);
  define_outputs(node, built);
}

// Adds a Scan whose outputs are not defined in the scope yet.
Node* build_scan(NodeImport& node, const onnx::GraphProto& proto) {
  const int64_t scans = node.attrs.require_int("num_scan_inputs");
  if (scans < 1 || static_cast<size_t>(scans) > node.input_count()) {
    throw Error(Code::ATTRIBUTE, "num_scan_inputs is " + std::to_string(scans) + ", the node has " +
                                     std::to_string(node.input_count()) + " inputs");
  }
  const size_t states = node.input_count() - static_cast<size_t>(scans);
  std::vector<TensorType> types;
  for (size_t i = 0; i < node.input_count(); ++i) types.push_back(dtype_only(node.require_input(i)));
  Node* built = add_control_node(node, "Scan", static_cast<size_t>(proto.output_size()), node.attrs);
  const Graph* body = node.builder.add_body(node.scope, built, proto, types);
  check_counts("number of inputs of the body", body->inputs.size(), node.input_count());
  if (built->outputs.size() < states) check_counts("number of outputs of the body", built->outputs.size(), states);
  for (size_t i = 0; i < built->outputs.size(); ++i) built->outputs[i]->type = dtype_only(body->outputs[i]);
  return built;
}

// Opset 8 scans each element of a batch by itself: a Scan over the batch whose body is the Scan proper.
void import_batched_scan(NodeImport& node, const onnx::GraphProto& proto) {
  if (node.input(0) != nullptr) throw Error(Code::UNSUPPORTED_OP, "sequence_lens is not supported");
  if (node.input_count() < 2) throw Error(Code::ARITY, "has too few inputs");
  node.inputs.erase(node.inputs.begin());
  const int64_t scans = node.attrs.require_int("num_scan_inputs");
  const std::vector<int64_t> directions = node.attrs.get_ints("directions");
  Attributes outer_attrs;
  outer_attrs.set("num_scan_inputs", static_cast<int64_t>(node.input_count()));
  Node* outer = add_control_node(node, "Scan", static_cast<size_t>(proto.output_size()), outer_attrs);
  Scope inner_scope;
  inner_scope.parent = &node.scope;
  inner_scope.graph = node.scope.graph->add_body(outer);
  inner_scope.opsets = node.scope.opsets;
  inner_scope.attributes = node.scope.attributes;
  inner_scope.in_function = node.scope.in_function;
  inner_scope.prefix = node.name + "/batch/";
  NodeImport inner(node.builder, inner_scope);
  inner.op = "Scan";
  inner.name = node.name;
  inner.version = node.version;
  inner.attrs.set("num_scan_inputs", scans);
  if (!directions.empty()) inner.attrs.set("scan_input_directions", directions);
  for (size_t i = 0; i < node.input_count(); ++i) {
    const std::string name = node.builder.fresh_name(inner_scope.prefix + "in");
    inner.inputs.push_back(inner_scope.graph->add_input(name, dtype_only(node.require_input(i))));
  }
  Node* built = build_scan(inner, proto);
  inner_scope.graph->outputs = built->outputs;
  for (size_t i = 0; i < outer->outputs.size(); ++i) outer->outputs[i]->type = dtype_only(built->outputs[i]);
  define_outputs(node, outer);
}

void import_scan(NodeImport& node) {
  const onnx::GraphProto& proto = require_graph(node, "body");
  if (node.version < 9) return import_batched_scan(node, proto);
  define_outputs(node, build_scan(node, proto));
}

}  // namespace

void add_control_handlers(HandlerMap& map) {
  map["If"] = import_if;
  map["Loop"] = import_loop;
  map["Scan"] = import_scan;
}

}  // namespace deepjit::importer
