// A model as rules look at it: ONNX's protobuf with its uses indexed, constants read, and types inferred.
//
// Types come from a real import of the model and are there for the values that keep their names in it; when the
// import fails, failure() says why and what the model declares is all there is. Needs the protobuf to outlive it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "import/importer.h"
#include "onnx-ml.pb.h"

namespace deepjit::doctor {

using Nodes = std::vector<const onnx::NodeProto*>;

// One graph: the main one or a body. Values of the graphs around it are theirs.
class GraphView {
 public:
  GraphView(const onnx::GraphProto& proto, int index, const GraphView* outer);

  const onnx::GraphProto& proto() const { return proto_; }
  int index() const { return index_; }  // depth-first over the model
  const GraphView* outer() const { return outer_; }
  const onnx::NodeProto* producer(const std::string& value) const;
  // One entry a use. A node whose bodies read the value counts as a reader.
  const Nodes& readers(const std::string& value) const;
  bool is_output(const std::string& value) const { return outputs_.count(value) != 0; }
  bool is_input(const std::string& value) const { return inputs_.count(value) != 0; }
  bool is_initializer(const std::string& value) const { return initializers_.count(value) != 0; }
  bool defines(const std::string& value) const;
  // The one reader of a value that is no output; nullptr when there are more or none.
  const onnx::NodeProto* only_reader(const std::string& value) const;
  bool used(const std::string& value) const { return is_output(value) || !readers(value).empty(); }
  int position(const onnx::NodeProto* node) const { return positions_.at(node); }
  std::string name_of(const onnx::NodeProto& node) const;
  const onnx::TensorProto* initializer(const std::string& value) const;

 private:
  const onnx::GraphProto& proto_;
  int index_;
  const GraphView* outer_;
  std::unordered_map<std::string, const onnx::NodeProto*> producers_;
  std::unordered_map<std::string, Nodes> readers_;
  std::unordered_map<std::string, const onnx::TensorProto*> initializers_;
  std::unordered_set<std::string> inputs_, outputs_;
  std::unordered_map<const onnx::NodeProto*, int> positions_;
};

class ModelView {
 public:
  ModelView(const onnx::ModelProto& proto, const std::string& folder);
  ~ModelView();
  ModelView(const ModelView&) = delete;
  ModelView& operator=(const ModelView&) = delete;

  const onnx::ModelProto& proto() const { return proto_; }
  const std::string& folder() const { return folder_; }
  const std::vector<std::unique_ptr<GraphView>>& graphs() const { return graphs_; }
  const GraphView& main() const { return *graphs_.front(); }
  int64_t opset() const { return opset_; }
  // Does the model bring the operator along, as a function of its own?
  bool is_function(const onnx::NodeProto& node) const;

  // The data of an initializer or Constant, also behind Identity, here or in a graph around; nullptr when there is
  // none. A default that a caller may override is none.
  const Tensor* constant(const GraphView& graph, const std::string& value) const;
  // The number of a constant of one element.
  std::optional<double> scalar(const GraphView& graph, const std::string& value) const;
  std::optional<std::vector<int64_t>> integers(const GraphView& graph, const std::string& value) const;

  // The value of that name in the imported graph; nullptr when there is none or the name is no one value's.
  const Value* inferred(const std::string& name) const;
  // Its type: inferred, else declared; dtype UNDEFINED and unranked when nothing is known.
  TensorType type(const GraphView& graph, const std::string& name) const;
  // Why the model does not import; nothing when it does.
  const std::optional<Error>& failure() const;
  // Symbols of the main graph's inputs: all of them, or those of the first dims.
  std::unordered_set<std::string> input_symbols(bool first_only) const;

 private:
  void add_graph(const onnx::GraphProto& graph, const GraphView* outer);
  const Tensor* read(const GraphView& graph, const std::string& value) const;
  void import() const;

  const onnx::ModelProto& proto_;
  std::string folder_;
  ImportOptions options_;
  std::vector<std::unique_ptr<GraphView>> graphs_;
  int64_t opset_ = 0;
  std::unordered_set<std::string> functions_;
  std::unordered_set<std::string> names_, twice_;  // values by name; sibling bodies may use one twice
  struct Cache;
  std::unique_ptr<Cache> cache_;
};

// Is it that operator of the default domain?
bool is(const onnx::NodeProto* node, const char* op);
bool default_domain(const onnx::NodeProto& node);
const onnx::AttributeProto* attribute(const onnx::NodeProto& node, const char* name);
int64_t int_attribute(const onnx::NodeProto& node, const char* name, int64_t fallback);
std::optional<std::vector<int64_t>> ints_attribute(const onnx::NodeProto& node, const char* name);
// Input or output i, or "" when it is left out.
const std::string& input_of(const onnx::NodeProto& node, int i);
const std::string& output_of(const onnx::NodeProto& node, int i);
// "3 nodes", "1 node".
std::string counted(size_t count, const std::string& noun);

}  // namespace deepjit::doctor
