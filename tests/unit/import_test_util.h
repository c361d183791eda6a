// Builds small ONNX models for the import tests.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "import/importer.h"
#include "onnx-ml.pb.h"

namespace deepjit {

struct ModelBuilder {
  onnx::ModelProto model;

  explicit ModelBuilder(int64_t opset = 17, int64_t ir = 8) {
    model.set_ir_version(ir);
    import("", opset);
    model.mutable_graph()->set_name("g");
  }
  onnx::GraphProto& graph() { return *model.mutable_graph(); }
  void import(const std::string& domain, int64_t version) {
    auto* entry = model.add_opset_import();
    entry->set_domain(domain);
    entry->set_version(version);
  }
  ImportedModel load(const ImportOptions& options = {}) {
    const std::string bytes = model.SerializeAsString();
    return import_onnx({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, options);
  }
};

using Names = std::vector<std::string>;

inline onnx::NodeProto& add_node(google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes, const std::string& op,
                                 const Names& inputs, const Names& outputs, const std::string& name = "") {
  onnx::NodeProto& node = *nodes.Add();
  node.set_op_type(op);
  node.set_name(name);
  for (const auto& input : inputs) node.add_input(input);
  for (const auto& output : outputs) node.add_output(output);
  return node;
}
inline onnx::NodeProto& add_node(onnx::GraphProto& graph, const std::string& op, const Names& inputs,
                                 const Names& outputs, const std::string& name = "") {
  return add_node(*graph.mutable_node(), op, inputs, outputs, name);
}

// A dim: a number, or a name.
struct D {
  int64_t value = -1;
  std::string name;
  D(int v) : value(v) {}         // NOLINT
  D(const char* n) : name(n) {}  // NOLINT
};

inline void set_info(onnx::ValueInfoProto& info, const std::string& name, const std::vector<D>& dims,
                     int dtype = onnx::TensorProto::FLOAT) {
  info.set_name(name);
  auto* tensor = info.mutable_type()->mutable_tensor_type();
  tensor->set_elem_type(dtype);
  tensor->mutable_shape();
  for (const D& d : dims) {
    auto* dim = tensor->mutable_shape()->add_dim();
    if (d.name.empty()) {
      dim->set_dim_value(d.value);
    } else {
      dim->set_dim_param(d.name);
    }
  }
}
inline void add_input(onnx::GraphProto& graph, const std::string& name, const std::vector<D>& dims,
                      int dtype = onnx::TensorProto::FLOAT) {
  set_info(*graph.add_input(), name, dims, dtype);
}
// Without a type: whatever comes out is right.
inline void add_output(onnx::GraphProto& graph, const std::string& name) { graph.add_output()->set_name(name); }

inline onnx::AttributeProto& add_attribute(onnx::NodeProto& node, const std::string& name,
                                           onnx::AttributeProto::AttributeType type) {
  auto* attribute = node.add_attribute();
  attribute->set_name(name);
  attribute->set_type(type);
  return *attribute;
}
inline void add_int(onnx::NodeProto& node, const std::string& name, int64_t value) {
  add_attribute(node, name, onnx::AttributeProto::INT).set_i(value);
}
inline void add_float(onnx::NodeProto& node, const std::string& name, float value) {
  add_attribute(node, name, onnx::AttributeProto::FLOAT).set_f(value);
}
inline void add_string(onnx::NodeProto& node, const std::string& name, const std::string& value) {
  add_attribute(node, name, onnx::AttributeProto::STRING).set_s(value);
}
inline void add_ints(onnx::NodeProto& node, const std::string& name, const std::vector<int64_t>& values) {
  auto& attribute = add_attribute(node, name, onnx::AttributeProto::INTS);
  for (int64_t v : values) attribute.add_ints(v);
}
inline onnx::GraphProto& add_graph(onnx::NodeProto& node, const std::string& name) {
  auto* graph = add_attribute(node, name, onnx::AttributeProto::GRAPH).mutable_g();
  graph->set_name(name);
  return *graph;
}

inline void set_floats(onnx::TensorProto& tensor, const std::string& name, const std::vector<int64_t>& dims,
                       const std::vector<float>& values) {
  tensor.set_name(name);
  tensor.set_data_type(onnx::TensorProto::FLOAT);
  for (int64_t d : dims) tensor.add_dims(d);
  for (float v : values) tensor.add_float_data(v);
}
inline void set_ints(onnx::TensorProto& tensor, const std::string& name, const std::vector<int64_t>& dims,
                     const std::vector<int64_t>& values) {
  tensor.set_name(name);
  tensor.set_data_type(onnx::TensorProto::INT64);
  for (int64_t d : dims) tensor.add_dims(d);
  for (int64_t v : values) tensor.add_int64_data(v);
}

// The error that `f` throws; OK when it throws none.
template <typename F>
Error error_of(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e;
  }
  return Error(Code::OK, "no error");
}

inline std::vector<std::string> ops_of(const Graph& graph) {
  std::vector<std::string> out;
  for (const auto& node : graph.nodes()) out.push_back(node->op);
  return out;
}
inline const Node& node_of(const Graph& graph, const std::string& op) {
  for (const auto& node : graph.nodes()) {
    if (node->op == op) return *node;
  }
  throw Error(Code::INTERNAL, "no node " + op);
}

}  // namespace deepjit
