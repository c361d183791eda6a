// Optional with a type for its element, and SequenceMap, which becomes a Loop.
#include "ops/sequence/sequence.h"

#include "import/onnx/builder.h"
#include "import/onnx/node_import.h"
#include "import/onnx/text.h"

namespace deepjit::importer {

namespace {

// The element types from the outside in, as the op's attribute holds them.
std::vector<int64_t> dtype_chain(const TensorType& type) {
  std::vector<int64_t> chain = {static_cast<int64_t>(type.dtype)};
  if (type.element != nullptr) {
    for (int64_t inner : dtype_chain(*type.element)) chain.push_back(inner);
  }
  return chain;
}

void import_optional(NodeImport& node) {
  const auto type = node.types.find("type");
  if (node.input(0) == nullptr && type == node.types.end()) {
    throw Error(Code::ATTRIBUTE, "has neither an input nor the attribute \"type\"");
  }
  Attributes attrs;
  if (node.input(0) == nullptr) attrs.set("element", dtype_chain(type->second));
  node.finish("Optional", node.inputs, attrs);
}

// The Loop that a SequenceMap stands for, with its body's scope.
struct Map {
  Node* loop = nullptr;
  Scope scope;
  std::vector<Node*> empties;  // the sequences that the results are added to
};

Map add_loop(NodeImport& node, size_t results) {
  Builder& builder = node.builder;
  Map map;
  Value* trips = node.emit("SequenceLength", {node.require_input(0)});
  std::vector<Value*> ins = {trips, nullptr};
  std::vector<std::string> names;
  for (size_t i = 0; i < results; ++i) {
    map.empties.push_back(node.emit_many("SequenceEmpty", {}, {}, 1));
    ins.push_back(map.empties.back()->output(0));
    names.push_back(node.has_output(i) ? builder.value_name(node.scope, node.outputs[i])
                                       : builder.fresh_name(node.name + "/unused"));
  }
  map.loop = builder.add_node(node.scope, "Loop", node.name, std::move(ins), {}, names);
  map.scope.parent = &node.scope;
  map.scope.graph = node.scope.graph->add_body(map.loop);
  map.scope.opsets = node.scope.opsets;
  map.scope.attributes = node.scope.attributes;
  map.scope.in_function = node.scope.in_function;
  map.scope.prefix = node.name + "/";
  return map;
}

// The body's inputs: elements of the sequences, and tensors as they are.
void define_elements(NodeImport& node, Map& map, const onnx::GraphProto& proto, Value* index) {
  if (static_cast<size_t>(proto.input_size()) != node.input_count()) {
    throw Error(Code::ARITY, "the body has " + std::to_string(proto.input_size()) + " inputs, the node has " +
                                 std::to_string(node.input_count()));
  }
  for (int i = 0; i < proto.input_size(); ++i) {
    Value* value = node.require_input(static_cast<size_t>(i));
    if (i == 0 || dtype_of(value) == DType::SEQUENCE) {
      const std::string name = node.builder.fresh_name(map.scope.prefix + "element");
      value = node.builder.add_node(map.scope, "SequenceAt", node.name, {value, index}, {}, {name})->output(0);
    }
    check_name(proto.input(i).name(), "input");
    node.builder.define(map.scope, proto.input(i).name(), value);
  }
}

void import_sequence_map(NodeImport& node) {
  const auto found = node.graphs.find("body");
  if (found == node.graphs.end()) throw Error(Code::ATTRIBUTE, "attribute \"body\" must be a graph");
  const onnx::GraphProto& proto = *found->second;
  const auto results = static_cast<size_t>(proto.output_size());
  if (node.outputs.size() > results) {
    throw Error(Code::ARITY,
                "has " + std::to_string(node.outputs.size()) + " outputs, its body gives " + std::to_string(results));
  }
  Builder& builder = node.builder;
  Map map = add_loop(node, results);
  Graph& body = *map.scope.graph;
  const auto fresh = [&](const char* wish) { return builder.fresh_name(map.scope.prefix + wish); };
  Value* index = body.add_input(fresh("index"), {DType::INT64, Shape(std::vector<Dim>{})});
  Value* condition = body.add_input(fresh("condition"), {DType::BOOL, Shape(std::vector<Dim>{})});
  std::vector<Value*> lists;
  for (size_t i = 0; i < results; ++i) lists.push_back(body.add_input(fresh("results"), {}));
  define_elements(node, map, proto, index);
  const std::vector<Value*> elements = builder.fill_loop_body(map.scope, proto);
  body.outputs = {condition};
  for (size_t i = 0; i < results; ++i) {
    DType dtype = builder.type_from_proto(proto.output(static_cast<int>(i))).dtype;
    if (dtype == DType::UNDEFINED) dtype = dtype_of(elements[i]);
    if (dtype != DType::UNDEFINED) map.empties[i]->attrs.set("dtype", static_cast<int64_t>(dtype));
    const TensorType type = collection_type(DType::SEQUENCE, node.scope.graph->fresh_dim(), {dtype, Shape()});
    map.empties[i]->output(0)->type = lists[i]->type = map.loop->outputs[i]->type = type;
    body.outputs.push_back(
        builder.add_node(map.scope, "SequenceInsert", node.name, {lists[i], elements[i]}, {}, {fresh("inserted")})
            ->output(0));
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.has_output(i)) builder.define(node.scope, node.outputs[i], map.loop->outputs[i]);
  }
}

}  // namespace

void add_sequence_handlers(HandlerMap& map) {
  map["Optional"] = import_optional;
  map["SequenceMap"] = import_sequence_map;
}

}  // namespace deepjit::importer
