#include <algorithm>

#include "import/onnx/builder.h"
#include "import/onnx/text.h"

namespace deepjit::importer {

namespace {

// Names that `graph` reads from the graphs around it.
void free_names(const onnx::GraphProto& graph, std::unordered_set<std::string>& out);

void names_read(const onnx::NodeProto& node, std::unordered_set<std::string>& out) {
  for (const std::string& input : node.input()) {
    if (!input.empty()) out.insert(input);
  }
  for (const auto& attribute : node.attribute()) {
    if (attribute.has_g()) free_names(attribute.g(), out);
    for (const auto& graph : attribute.graphs()) free_names(graph, out);
  }
}

void free_names(const onnx::GraphProto& graph, std::unordered_set<std::string>& out) {
  std::unordered_set<std::string> read;
  for (const auto& node : graph.node()) names_read(node, read);
  for (const auto& output : graph.output()) read.insert(output.name());
  for (const auto& input : graph.input()) read.erase(input.name());
  for (const auto& tensor : graph.initializer()) read.erase(tensor.name());
  for (const auto& tensor : graph.sparse_initializer()) read.erase(tensor.values().name());
  for (const auto& node : graph.node()) {
    for (const std::string& name : node.output()) read.erase(name);
  }
  out.merge(read);
}

std::vector<std::vector<int>> dependencies(const NodeProtos& nodes) {
  std::unordered_map<std::string, int> producer;
  for (int i = 0; i < nodes.size(); ++i) {
    for (const std::string& name : nodes[i].output()) {
      if (!name.empty()) producer.emplace(name, i);
    }
  }
  std::vector<std::vector<int>> out(static_cast<size_t>(nodes.size()));
  for (int i = 0; i < nodes.size(); ++i) {
    std::unordered_set<std::string> read;
    names_read(nodes[i], read);
    for (const std::string& name : read) {
      const auto found = producer.find(name);
      if (found != producer.end()) out[static_cast<size_t>(i)].push_back(found->second);
    }
    std::sort(out[static_cast<size_t>(i)].begin(), out[static_cast<size_t>(i)].end());
  }
  return out;
}

bool is_sorted(const std::vector<std::vector<int>>& reads) {
  for (size_t i = 0; i < reads.size(); ++i) {
    if (!reads[i].empty() && reads[i].back() >= static_cast<int>(i)) return false;
  }
  return true;
}

}  // namespace

std::vector<int> topological_order(const NodeProtos& nodes) {
  const std::vector<std::vector<int>> reads = dependencies(nodes);
  const auto n = static_cast<size_t>(nodes.size());
  std::vector<int> order;
  order.reserve(n);
  if (is_sorted(reads)) {
    for (size_t i = 0; i < n; ++i) order.push_back(static_cast<int>(i));
    return order;
  }
  enum : uint8_t { NEW, OPEN, DONE };
  std::vector<uint8_t> state(n, NEW);
  std::vector<std::pair<size_t, size_t>> stack;  // node, next dependency
  for (size_t start = 0; start < n; ++start) {
    if (state[start] != NEW) continue;
    state[start] = OPEN;
    stack.emplace_back(start, 0);
    while (!stack.empty()) {
      auto& [node, next] = stack.back();
      if (next == reads[node].size()) {
        state[node] = DONE;
        order.push_back(static_cast<int>(node));
        stack.pop_back();
        continue;
      }
      const auto read = static_cast<size_t>(reads[node][next++]);
      if (state[read] == OPEN) {
        const auto& proto = nodes[static_cast<int>(read)];
        throw Error(Code::GRAPH_CYCLE, "node " + quoted(proto.name()) + " (" + proto.op_type() +
                                           ") depends on its own output " +
                                           quoted(proto.output_size() > 0 ? proto.output(0) : ""));
      }
      if (state[read] == NEW) {
        state[read] = OPEN;
        stack.emplace_back(read, 0);
      }
    }
  }
  return order;
}

std::string normal_domain(const std::string& domain) { return domain == "ai.onnx" ? "" : domain; }

}  // namespace deepjit::importer
