// Walks an ONNX model and emits canonical nodes into a Graph.
//
// A Scope is one namespace of ONNX values: the main graph, a body, or one call of a function. Emitted nodes get
// a best-effort type at once, so that handlers can look at dtypes and ranks; the authoritative inference runs
// over the finished graph. Operators that are missing are collected and reported together.
#pragma once

#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "graph/graph.h"
#include "import/importer.h"
#include "import/onnx/external_data.h"
#include "import/user_ops/registry.h"
#include "onnx-ml.pb.h"

namespace deepjit::importer {

class NodeImport;

using AttributeMap = std::unordered_map<std::string, const onnx::AttributeProto*>;
using OpsetMap = std::unordered_map<std::string, int64_t>;
using NodeProtos = google::protobuf::RepeatedPtrField<onnx::NodeProto>;

struct Scope {
  const Scope* parent = nullptr;  // the graph around this body; a function sees nothing around it
  Graph* graph = nullptr;         // receives the nodes
  const OpsetMap* opsets = nullptr;
  const AttributeMap* attributes = nullptr;  // of the function call, which ref_attr_name refers to
  bool in_function = false;
  std::string prefix;                                   // of made-up names; empty for the main graph
  std::unordered_map<std::string, Value*> values;       // nullptr: an omitted optional argument of a function
  std::unordered_map<std::string, std::string> rename;  // function outputs: the caller's names
};

class Builder {
 public:
  Builder(const ImportOptions& options, onnx::ModelProto& model, Graph& root);
  void build();

  const ImportOptions& options() const { return options_; }
  ExternalData& external() { return external_; }
  int64_t& sparse_bytes_left() { return sparse_bytes_left_; }
  int64_t default_opset() const;
  const std::map<std::string, UserOpUse>& user_ops() const { return user_ops_; }

  // Adds a node and infers its outputs as far as possible. `outputs` are names from value_name or fresh_name.
  Node* add_node(Scope& scope, const std::string& op, const std::string& name, std::vector<Value*> inputs,
                 Attributes attrs, const std::vector<std::string>& outputs);
  // A name nobody has, close to `wish`.
  std::string fresh_name(const std::string& wish);
  // The name in the graph for the ONNX value `name` that `scope` is about to define.
  std::string value_name(Scope& scope, const std::string& name);
  void define(Scope& scope, const std::string& name, Value* value);
  // A body for `node` from `proto`, whose inputs get these types (missing ones stay unknown).
  Graph* add_body(Scope& scope, Node* node, const onnx::GraphProto& proto, const std::vector<TensorType>& input_types);
  void note_unsupported(const std::string& what);
  TensorType type_from_proto(const onnx::ValueInfoProto& info);
  // `what` names the value in errors. UNDEFINED where nothing is said, and for types that are noted as unsupported.
  TensorType type_from_proto(const onnx::TypeProto& type, const std::string& what, int depth = 0);
  // Adds the nodes of `proto` to a loop's body, whose scope has its inputs already; returns its outputs.
  std::vector<Value*> fill_loop_body(Scope& scope, const onnx::GraphProto& proto);

 private:
  void load_opsets();
  void load_functions();
  const onnx::FunctionProto* function_of(const onnx::NodeProto& node) const;  // nullptr: it calls none
  void check_inlined_size() const;
  [[noreturn]] void too_many_nodes() const;
  void reserve_names(const onnx::GraphProto& graph);
  void add_root_inputs(Scope& scope);
  void add_initializers(Scope& scope, const onnx::GraphProto& graph);
  void add_initializer(Scope& scope, const std::string& name, Tensor tensor);
  void check_definitions(const Scope& scope, const NodeProtos& nodes) const;
  void add_nodes(Scope& scope, const NodeProtos& nodes);
  void add_outputs(Scope& scope, const onnx::GraphProto& graph);
  void emit_node(Scope& scope, const onnx::NodeProto& proto, const std::string& name);
  void stand_in(NodeImport& node);
  std::shared_ptr<const UserOp> user_op_of(const std::string& domain, const std::string& op_type) const;
  void call_function(Scope& scope, const onnx::NodeProto& proto, const onnx::FunctionProto& function,
                     const std::string& name, std::vector<Value*> inputs);
  AttributeMap bind_attributes(const Scope& scope, const onnx::NodeProto& proto, const onnx::FunctionProto& function);
  void bind_results(Scope& outer, Scope& inner, const onnx::NodeProto& proto, const onnx::FunctionProto& function,
                    const std::string& name);
  std::vector<Value*> resolve_inputs(const Scope& scope, const onnx::NodeProto& proto);
  Value* resolve(const Scope& scope, const std::string& name) const;
  int64_t opset_of(const Scope& scope, const std::string& domain) const;
  void convert_attributes(const Scope& scope, const onnx::NodeProto& proto, NodeImport& out);
  void count_node();
  void enter_graph(bool loop);
  TensorType tensor_type(const onnx::TypeProto::Tensor& type, const std::string& what);
  Dim dim_from_proto(const onnx::TensorShapeProto::Dimension& dim);
  void throw_unsupported() const;

  const ImportOptions& options_;
  onnx::ModelProto& model_;
  Graph& root_;
  ExternalData external_;
  int64_t sparse_bytes_left_;
  OpsetMap opsets_;
  std::unordered_map<std::string, const onnx::FunctionProto*> functions_;
  std::unordered_map<const onnx::FunctionProto*, OpsetMap> function_opsets_;
  std::vector<const onnx::FunctionProto*> call_stack_;
  std::unordered_set<std::string> root_names_;  // belong to the main graph
  std::unordered_set<std::string> taken_;
  std::unordered_map<std::string, int64_t> next_suffix_;
  std::unordered_map<std::string, std::string> symbols_;  // dim_param -> symbol
  std::unordered_set<std::string> symbol_names_;
  struct Missing {
    std::string first_node;
    int64_t count = 0;
  };
  std::map<std::string, Missing> unsupported_;
  std::string current_op_;  // the ONNX node being imported, for reports
  std::string current_node_;
  int64_t nodes_ = 0;
  int depth_ = 0;
  int loop_depth_ = 0;
  bool error_is_named_ = false;
  std::shared_ptr<const UserOps> known_user_ops_;  // as they were when the import began
  std::map<std::string, UserOpUse> user_ops_;
};

// Positions of `nodes` in topological order (the given order when it is one already). Throws GRAPH_CYCLE.
std::vector<int> topological_order(const NodeProtos& nodes);
// What is sure of a type before the inference runs over the finished graph: the element types.
TensorType loose_type(const TensorType& type);
// Throws SHAPE_OVERFLOW when the known dims alone are more bytes than a number can hold.
void check_bytes(const TensorType& type, const std::string& what);
// Has the default domain an operator of this name in this opset?
bool is_onnx_op(const std::string& name, int64_t version);
// Throws OPSET when the default domain's version, if given, is not supported; `what` imports it.
void check_opset(const OpsetMap& opsets, const std::string& what);
// "ai.onnx" is the long name of the default domain.
std::string normal_domain(const std::string& domain);

}  // namespace deepjit::importer
