// What a handler sees of one ONNX node, and how it emits the canonical form.
//
// `attrs` and `inputs` hold the node as written (attribute references resolved, trailing omitted inputs gone); a
// handler edits them and calls finish(), or emits several nodes and calls define() for each output.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace onnx {
class GraphProto;
}

namespace deepjit {
struct UserOp;
}

namespace deepjit::importer {

class Builder;
struct Scope;

class NodeImport {
 public:
  NodeImport(Builder& builder, Scope& scope) : builder(builder), scope(scope) {}

  Builder& builder;
  Scope& scope;
  std::string op;  // canonical name: "Conv", "com.microsoft.FusedMatMul"
  std::string name;
  int64_t version = 0;
  std::vector<Value*> inputs;
  Attributes attrs;
  std::map<std::string, const onnx::GraphProto*> graphs;  // attributes that are graphs
  std::map<std::string, TensorType> types;                // attributes that are types
  std::vector<std::string> outputs;                       // ONNX names; empty where omitted

  size_t input_count() const { return inputs.size(); }
  Value* input(size_t i) const { return i < inputs.size() ? inputs[i] : nullptr; }
  // Throws ARITY when it is missing.
  Value* require_input(size_t i) const;
  // Sets input i, with omitted ones before it.
  void set_input(size_t i, Value* value);
  bool has_output(size_t i) const { return i < outputs.size() && !outputs[i].empty(); }
  // Drops outputs past `count`; an error when one of them has a name.
  void keep_outputs(size_t count);

  Value* constant(Tensor tensor);
  Value* ints(const std::vector<int64_t>& values);  // 1-D int64
  Value* scalar_like(double value, Value* like);    // 0-D of the dtype of `like`
  Value* emit(const std::string& canonical, std::vector<Value*> ins, Attributes attributes = {});
  // A node with `count` made-up outputs.
  Node* emit_many(const std::string& canonical, std::vector<Value*> ins, Attributes attributes, int count);
  Node* finish(const std::string& canonical, std::vector<Value*> ins, Attributes attributes);
  Node* finish() { return finish(op, inputs, attrs); }
  void define(size_t output, const std::string& canonical, std::vector<Value*> ins, Attributes attributes = {});
  void define_constant(size_t output, Tensor tensor);

  // Makes attribute `attribute` (ints, or an int) the 1-D input i; nothing when it is absent.
  void attribute_to_input(const std::string& attribute, size_t i);
};

// nullptr when nothing is known.
const Tensor* constant_of(const Value* value);
std::optional<int> rank_of(const Value* value);
DType dtype_of(const Value* value);  // UNDEFINED when not known

using Handler = void (*)(NodeImport&);
using HandlerMap = std::map<std::string, Handler>;
// A node of opsets 1 to 6 takes opset 7's form.
void translate_before_opset_7(NodeImport& node);

// A node of a user op (import/user_ops/definition.h).
void import_user_op(NodeImport& node, const UserOp& op);

// The handler for a canonical name, or nullptr: the node is kept as it is.
Handler find_handler(const std::string& op);

void add_constant_handlers(HandlerMap& map);
void add_axes_handlers(HandlerMap& map);
void add_norm_handlers(HandlerMap& map);
void add_image_handlers(HandlerMap& map);
void add_misc_handlers(HandlerMap& map);
void add_control_handlers(HandlerMap& map);
void add_sequence_handlers(HandlerMap& map);
void add_microsoft_handlers(HandlerMap& map);
void add_ml_handlers(HandlerMap& map);
void add_tree_handlers(HandlerMap& map);
void add_training_handlers(HandlerMap& map);

}  // namespace deepjit::importer
