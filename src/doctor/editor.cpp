#include "doctor/editor.h"

#include <algorithm>

namespace deepjit::doctor {

namespace {

template <typename F>
void each_body(onnx::NodeProto& node, F&& f) {
  for (auto& a : *node.mutable_attribute()) {
    if (a.has_g()) f(*a.mutable_g());
    for (auto& g : *a.mutable_graphs()) f(g);
  }
}

// Makes every reader in the graph and its bodies read the new name. Outputs keep theirs.
void rename_reads(onnx::GraphProto& graph, const Renames& renames, bool outputs) {
  const auto renamed = [&](std::string* name) {
    const auto found = renames.find(*name);
    if (found != renames.end()) *name = found->second;
  };
  for (auto& node : *graph.mutable_node()) {
    for (auto& name : *node.mutable_input()) renamed(&name);
    each_body(node, [&](onnx::GraphProto& body) { rename_reads(body, renames, true); });
  }
  if (!outputs) return;
  // A body may hand a value of the graph around it on by its name.
  for (auto& info : *graph.mutable_output()) renamed(info.mutable_name());
}

void collect_reads(const onnx::GraphProto& graph, bool outputs, std::unordered_map<std::string, int>& uses) {
  for (const auto& node : graph.node()) {
    for (const auto& name : node.input()) ++uses[name];
    for (const auto& a : node.attribute()) {
      if (a.has_g()) collect_reads(a.g(), true, uses);
      for (const auto& g : a.graphs()) collect_reads(g, true, uses);
    }
  }
  if (!outputs) return;
  for (const auto& info : graph.output()) ++uses[info.name()];
}

onnx::AttributeProto& slot(onnx::NodeProto& node, const char* name) {
  for (auto& a : *node.mutable_attribute()) {
    if (a.name() == name) {
      a.Clear();
      a.set_name(name);
      return a;
    }
  }
  onnx::AttributeProto& a = *node.add_attribute();
  a.set_name(name);
  return a;
}

void collect_names(const onnx::GraphProto& graph, std::unordered_set<std::string>& names) {
  for (const auto& info : graph.input()) names.insert(info.name());
  for (const auto& tensor : graph.initializer()) names.insert(tensor.name());
  for (const auto& node : graph.node()) {
    names.insert(node.output().begin(), node.output().end());
    for (const auto& a : node.attribute()) {
      if (a.has_g()) collect_names(a.g(), names);
      for (const auto& g : a.graphs()) collect_names(g, names);
    }
  }
}

// Removes nodes and initializers that nobody reads, innermost graphs first.
bool remove_unneeded(onnx::GraphProto& graph) {
  bool any = false;
  for (auto& node : *graph.mutable_node()) {
    each_body(node, [&](onnx::GraphProto& body) { any = remove_unneeded(body) || any; });
  }
  for (bool changed = true; changed;) {
    changed = false;
    std::unordered_map<std::string, int> uses;
    collect_reads(graph, true, uses);
    auto& nodes = *graph.mutable_node();
    const auto unneeded = [&](const onnx::NodeProto& node) {
      return std::none_of(node.output().begin(), node.output().end(),
                          [&](const std::string& name) { return !name.empty() && uses[name] > 0; });
    };
    const auto end = std::remove_if(nodes.begin(), nodes.end(), unneeded);
    changed = end != nodes.end();
    nodes.erase(end, nodes.end());
    any = any || changed;
    auto& tensors = *graph.mutable_initializer();
    std::unordered_set<std::string> dropped;
    for (const auto& tensor : tensors) {
      if (uses[tensor.name()] == 0) dropped.insert(tensor.name());
    }
    if (dropped.empty()) continue;
    const auto is_dropped = [&](const auto& named) { return dropped.count(named.name()) != 0; };
    tensors.erase(std::remove_if(tensors.begin(), tensors.end(), is_dropped), tensors.end());
    auto& inputs = *graph.mutable_input();
    inputs.erase(std::remove_if(inputs.begin(), inputs.end(), is_dropped), inputs.end());
  }
  graph.clear_value_info();
  return any;
}

}  // namespace

Editor::Editor(onnx::ModelProto& model) : model_(model) {
  collect(*model.mutable_graph());
  collect_names(model.graph(), names_);
}

void Editor::collect(onnx::GraphProto& graph) {
  graphs_.push_back(&graph);
  for (auto& node : *graph.mutable_node()) {
    each_body(node, [&](onnx::GraphProto& body) { collect(body); });
  }
}

onnx::NodeProto* Editor::producer(int scope, const std::string& value) {
  if (value.empty()) return nullptr;
  for (auto& node : *graph(scope).mutable_node()) {
    for (const auto& output : node.output()) {
      if (output == value) return &node;
    }
  }
  return nullptr;
}

void Editor::alias(int scope, const std::string& value, const std::string& source) {
  if (producer(scope, value) == nullptr) {
    drop_initializer(scope, value);
    renames_[scope][value] = source;
    return;
  }
  redefine(scope, value, "Identity", {source});
  aliases_.emplace_back(scope, value);
}

onnx::NodeProto* Editor::redefine(int scope, const std::string& value, const std::string& op,
                                  const std::vector<std::string>& inputs) {
  onnx::NodeProto* node = producer(scope, value);
  if (node == nullptr) return nullptr;
  const std::string name = node->name();
  node->Clear();
  node->set_name(name);
  node->set_op_type(op);
  for (const std::string& input : inputs) node->add_input(input);
  node->add_output(value);
  return node;
}

std::string Editor::fresh_name(const std::string& wish) {
  std::string name = wish;
  for (int i = 1; !names_.insert(name).second; ++i) name = wish + "_" + std::to_string(i);
  return name;
}

std::string Editor::add_initializer(int scope, const std::string& wish, const Tensor& tensor) {
  onnx::TensorProto& proto = *graph(scope).add_initializer();
  proto.set_name(fresh_name(wish));
  proto.set_data_type(static_cast<int>(tensor.dtype()));
  for (int64_t d : tensor.dims()) proto.add_dims(d);
  proto.set_raw_data(std::string(tensor.as<char>(), static_cast<size_t>(tensor.bytes())));
  return proto.name();
}

void Editor::drop_initializer(int scope, const std::string& name) {
  const auto named = [&](const auto& item) { return item.name() == name; };
  auto& tensors = *graph(scope).mutable_initializer();
  tensors.erase(std::remove_if(tensors.begin(), tensors.end(), named), tensors.end());
  auto& inputs = *graph(scope).mutable_input();
  inputs.erase(std::remove_if(inputs.begin(), inputs.end(), named), inputs.end());
}

void Editor::take_branch(int scope, const std::string& value, bool which) {
  onnx::GraphProto& outer = graph(scope);
  onnx::NodeProto* node = producer(scope, value);
  if (node == nullptr) return;
  onnx::GraphProto branch;
  for (const auto& a : node->attribute()) {
    if (a.name() == (which ? "then_branch" : "else_branch")) branch = a.g();
  }
  if (branch.output_size() != node->output_size()) return;
  // Both branches may use a name; here each is there once.
  Renames renames;
  std::unordered_set<std::string> own;
  collect_names(branch, own);
  for (const std::string& name : own) {
    if (!name.empty()) renames[name] = fresh_name(name);
  }
  rename_reads(branch, renames, true);
  const auto rename_writes = [&](auto&& self, onnx::GraphProto& g) -> void {
    const auto renamed = [&](const std::string& name) { return name.empty() ? name : renames.at(name); };
    for (auto& info : *g.mutable_input()) info.set_name(renamed(info.name()));
    for (auto& tensor : *g.mutable_initializer()) tensor.set_name(renamed(tensor.name()));
    for (auto& n : *g.mutable_node()) {
      for (auto& name : *n.mutable_output()) name = renamed(name);
      each_body(n, [&](onnx::GraphProto& body) { self(self, body); });
    }
  };
  rename_writes(rename_writes, branch);
  for (auto& tensor : *branch.mutable_initializer()) *outer.add_initializer() = std::move(tensor);
  google::protobuf::RepeatedPtrField<onnx::NodeProto> nodes;
  for (auto& n : *outer.mutable_node()) {
    if (&n != node) {
      *nodes.Add() = std::move(n);
      continue;
    }
    for (auto& inner : *branch.mutable_node()) *nodes.Add() = std::move(inner);
    for (int i = 0; i < n.output_size(); ++i) {
      if (n.output(i).empty()) continue;
      onnx::NodeProto& identity = *nodes.Add();
      identity.set_op_type("Identity");
      identity.add_input(branch.output(i).name());
      identity.add_output(n.output(i));
      aliases_.emplace_back(scope, n.output(i));
    }
  }
  outer.mutable_node()->Swap(&nodes);
}

void Editor::set_int(onnx::NodeProto& node, const char* name, int64_t value) {
  onnx::AttributeProto& a = slot(node, name);
  a.set_type(onnx::AttributeProto::INT);
  a.set_i(value);
}

void Editor::set_float(onnx::NodeProto& node, const char* name, float value) {
  onnx::AttributeProto& a = slot(node, name);
  a.set_type(onnx::AttributeProto::FLOAT);
  a.set_f(value);
}

void Editor::set_ints(onnx::NodeProto& node, const char* name, const std::vector<int64_t>& values) {
  onnx::AttributeProto& a = slot(node, name);
  a.set_type(onnx::AttributeProto::INTS);
  for (int64_t v : values) a.add_ints(v);
}

void Editor::set_string(onnx::NodeProto& node, const char* name, const std::string& value) {
  onnx::AttributeProto& a = slot(node, name);
  a.set_type(onnx::AttributeProto::STRING);
  a.set_s(value);
}

void Editor::drop_attribute(onnx::NodeProto& node, const char* name) {
  auto& list = *node.mutable_attribute();
  list.erase(std::remove_if(list.begin(), list.end(), [&](const auto& a) { return a.name() == name; }), list.end());
}

void Editor::free_batch(const std::vector<std::string>& inputs, const std::string& name) {
  for (auto& info : *model_.mutable_graph()->mutable_input()) {
    if (std::find(inputs.begin(), inputs.end(), info.name()) == inputs.end()) continue;
    info.mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim(0)->set_dim_param(name);
  }
  for (auto& info : *model_.mutable_graph()->mutable_output()) {
    if (!info.type().tensor_type().has_shape()) continue;
    auto* shape = info.mutable_type()->mutable_tensor_type()->mutable_shape();
    if (shape->dim_size() > 0) shape->mutable_dim(0)->set_dim_param(name);
  }
}

void Editor::finish() {
  for (const auto& [scope, value] : aliases_) {
    const onnx::NodeProto* node = producer(scope, value);
    if (node != nullptr && node->op_type() == "Identity") renames_[scope][value] = node->input(0);
  }
  for (auto& [scope, map] : renames_) {
    for (auto& [from, to] : map) {
      // At most once around: a model with a cycle is not going to be written.
      auto next = map.find(to);
      for (size_t i = 0; next != map.end() && i < map.size(); ++i, next = map.find(to)) to = next->second;
    }
    rename_reads(graph(scope), map, false);
  }
  remove_unneeded(*model_.mutable_graph());
}

}  // namespace deepjit::doctor
