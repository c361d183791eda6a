// DJ121 to DJ125: operators nobody knows, and graphs cut off.
#include <set>

#include "doctor/checkup.h"
#include "doctor/editor.h"
#include "import/onnx/builder.h"
#include "import/user_ops/registry.h"

namespace deepjit::doctor {

namespace {

// The nodes that a result of `graph` needs.
std::unordered_set<const onnx::NodeProto*> needed_nodes(const GraphView& graph) {
  std::unordered_set<const onnx::NodeProto*> needed;
  // Positions are not trusted to be topological: walk backwards over uses until nothing is new.
  std::vector<const onnx::NodeProto*> waiting;
  const auto want = [&](const std::string& value) {
    const onnx::NodeProto* node = graph.producer(value);
    if (node != nullptr && needed.insert(node).second) waiting.push_back(node);
  };
  for (const auto& output : graph.proto().output()) want(output.name());
  std::unordered_map<const onnx::NodeProto*, std::vector<std::string>> reads;
  for (const auto& node : graph.proto().node()) {
    for (const std::string& output : node.output()) {
      for (const onnx::NodeProto* reader : graph.readers(output)) reads[reader].push_back(output);
    }
  }
  while (!waiting.empty()) {
    const onnx::NodeProto* node = waiting.back();
    waiting.pop_back();
    for (const std::string& value : reads[node]) want(value);
  }
  return needed;
}

bool is_random(const onnx::NodeProto& node) {
  return node.op_type().rfind("Random", 0) == 0 || is(&node, "Multinomial");
}

// Values that depend on an input, in the order of the nodes.
std::unordered_set<std::string> dependent_values(const GraphView& graph) {
  std::unordered_set<std::string> dependent;
  for (const auto& info : graph.proto().input()) {
    if (!graph.is_initializer(info.name())) dependent.insert(info.name());
  }
  std::vector<std::string> waiting(dependent.begin(), dependent.end());
  const auto mark = [&](const onnx::NodeProto& node) {
    for (const std::string& output : node.output()) {
      if (!output.empty() && dependent.insert(output).second) waiting.push_back(output);
    }
  };
  for (const auto& node : graph.proto().node()) {
    if (is_random(node)) mark(node);
  }
  while (!waiting.empty()) {
    const std::string value = waiting.back();
    waiting.pop_back();
    for (const onnx::NodeProto* reader : graph.readers(value)) mark(*reader);
  }
  return dependent;
}

}  // namespace

void check_custom_ops(Checkup& checkup) {
  static const std::set<std::string> known = {
      "ai.onnx.ml",      "com.microsoft", "com.microsoft.nchwc", "com.ms.internal.nhwc", "ai.onnx.preview.training",
      "ai.onnx.training"};
  const auto users = registered_user_ops();
  checkup.each_node([&](const GraphView& graph, const onnx::NodeProto& node) {
    if (default_domain(node) || known.count(node.domain()) != 0 || checkup.model.is_function(node)) return;
    if (users->count(node.domain() + "::" + node.op_type()) != 0) return;
    size_t ends = 0;
    size_t readers = 0;
    for (const std::string& output : node.output()) {
      ends += graph.is_output(output);
      readers += graph.readers(output).size();
    }
    const auto all = static_cast<size_t>(graph.proto().node_size());
    const auto before = static_cast<size_t>(graph.position(&node));
    std::string message = "\"" + node.domain() + "::" + node.op_type() + "\" is a custom operator";
    if (ends > 0 && readers == 0) {
      message += "; the graph ends at it";
    } else if (readers == 0) {
      message += "; the graph is cut off at it";
    } else {
      message += "; it cuts the graph, " + counted(before, "node") + " before it and " +
                 std::to_string(all - before - 1) + " after";
    }
    checkup.found(graph, node, message);
  });
}

void check_unknown_ops(Checkup& checkup) {
  if (checkup.model.opset() == 0) return;
  checkup.each_node([&](const GraphView& graph, const onnx::NodeProto& node) {
    if (!default_domain(node) || checkup.model.is_function(node)) return;
    if (importer::is_onnx_op(node.op_type(), checkup.model.opset())) return;
    if (checkup.model.opset() > 26) return;
    const bool newer = importer::is_onnx_op(node.op_type(), 26);
    checkup.found(graph, node,
                  "opset " + std::to_string(checkup.model.opset()) + " has no operator " + node.op_type() +
                      (newer ? ", a newer one does" : ""));
  });
}

void check_unused_inputs(Checkup& checkup) {
  const GraphView& graph = checkup.model.main();
  for (const auto& info : graph.proto().input()) {
    if (graph.used(info.name()) || graph.is_initializer(info.name())) continue;
    Finding& finding = checkup.found("nothing reads the input \"" + info.name() + "\"");
    finding.value = info.name();
  }
}

void check_dead_nodes(Checkup& checkup) {
  for (const auto& graph : checkup.model.graphs()) {
    const auto needed = needed_nodes(*graph);
    Nodes dead;
    const onnx::NodeProto* last = nullptr;
    for (const auto& node : graph->proto().node()) {
      if (needed.count(&node) != 0 || is(&node, "Constant")) continue;
      dead.push_back(&node);
      last = &node;
    }
    if (last == nullptr) continue;
    Finding& finding = checkup.found(
        *graph, *last,
        "the results of " + counted(dead.size(), "node") + " reach no output; the last of them is this one");
    Checkup::costs(finding, dead);
    finding.mend = [](Editor&) {};  // every round of edits ends with dead nodes removed
  }
}

void check_constant_outputs(Checkup& checkup) {
  const GraphView& graph = checkup.model.main();
  if (graph.proto().input_size() == 0) return;
  const auto dependent = dependent_values(graph);
  for (const auto& info : graph.proto().output()) {
    if (dependent.count(info.name()) != 0 || !graph.defines(info.name())) continue;
    Finding& finding = checkup.found("the output \"" + info.name() + "\" is the same whatever the inputs are");
    finding.value = info.name();
    if (const onnx::NodeProto* node = graph.producer(info.name())) {
      finding.node = graph.name_of(*node);
      finding.op = node->op_type();
    }
  }
}

}  // namespace deepjit::doctor
