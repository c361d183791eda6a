// Edits a model the way mends need it: values are redefined, and what nobody needs any more is removed at the end.
//
// Values are named by (scope, name); a scope is the depth-first number of a graph, as in GraphView. A value is only
// ever redefined by values computed before it, so mends of one round cannot make a cycle, whatever their order.
#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/tensor.h"
#include "onnx-ml.pb.h"

namespace deepjit::doctor {

using Renames = std::unordered_map<std::string, std::string>;

class Editor {
 public:
  explicit Editor(onnx::ModelProto& model);

  onnx::ModelProto& model() { return model_; }
  // The node that writes the value in that graph; nullptr when there is none (any more).
  onnx::NodeProto* producer(int scope, const std::string& value);

  // The value becomes `source`, which is its equal. An initializer must not be an output of its graph.
  void alias(int scope, const std::string& value, const std::string& source);
  // The node that writes the value (and nothing else that is read) becomes op(inputs). Returns it for its attributes,
  // or nullptr when it is gone.
  onnx::NodeProto* redefine(int scope, const std::string& value, const std::string& op,
                            const std::vector<std::string>& inputs);
  // A new initializer; the name is close to `wish`.
  std::string add_initializer(int scope, const std::string& wish, const Tensor& tensor);
  void drop_initializer(int scope, const std::string& name);
  // Puts the nodes of a branch in the place of the If that writes `value`.
  void take_branch(int scope, const std::string& value, bool which);

  static void set_int(onnx::NodeProto& node, const char* name, int64_t value);
  static void set_float(onnx::NodeProto& node, const char* name, float value);
  static void set_ints(onnx::NodeProto& node, const char* name, const std::vector<int64_t>& values);
  static void set_string(onnx::NodeProto& node, const char* name, const std::string& value);
  static void drop_attribute(onnx::NodeProto& node, const char* name);
  // Makes dimension 0 of these inputs of the main graph the symbol `name`, and of the outputs too.
  void free_batch(const std::vector<std::string>& inputs, const std::string& name);

  // Removes what became unneeded, and the declared types of inner values, which may not hold any more.
  void finish();

 private:
  onnx::GraphProto& graph(int scope) { return *graphs_.at(static_cast<size_t>(scope)); }
  std::string fresh_name(const std::string& wish);
  void collect(onnx::GraphProto& graph);

  onnx::ModelProto& model_;
  std::vector<onnx::GraphProto*> graphs_;
  std::unordered_set<std::string> names_;
  std::vector<std::pair<int, std::string>> aliases_;  // Identities made here
  std::map<int, Renames> renames_;
};

}  // namespace deepjit::doctor
