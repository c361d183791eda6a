// A plain interpreter over the ops' references, for tests: what a graph computes, before and after a pass.
#pragma once

#include <map>
#include <unordered_map>
#include <vector>

#include "graph/graph.h"
#include "ops/op.h"
#include "passes/evaluate_op.h"

namespace deepjit {

class GraphInterpreter {
 public:
  // One tensor per graph input, in order.
  std::vector<Tensor> run(const Graph& graph, const std::vector<Tensor>& inputs) {
    for (size_t i = 0; i < graph.inputs.size(); ++i) values_[graph.inputs[i]] = inputs.at(i);
    return run_body(graph);
  }

 private:
  Tensor get(const Value* value) const {
    if (value == nullptr) return Tensor();
    if (value->is_constant()) return value->constant;
    auto it = values_.find(value);
    if (it == values_.end()) throw Error(Code::INTERNAL, "interpreter: %" + value->name + " has no value");
    return it->second;
  }

  std::vector<Tensor> run_body(const Graph& graph) {
    for (const auto& node : graph.nodes()) run_node(*node);
    std::vector<Tensor> results;
    for (const Value* v : graph.outputs) results.push_back(get(v));
    return results;
  }

  void run_node(const Node& node) {
    std::vector<Tensor> results;
    if (node.op == "If") {
      results = run_body(*node.bodies[get(node.inputs[0]).as<uint8_t>()[0] != 0 ? 0 : 1]);
    } else if (node.op == "Loop") {
      results = run_loop(node);
    } else {
      std::vector<Tensor> inputs;
      for (const Value* v : node.inputs) inputs.push_back(get(v));
      std::vector<bool> wanted;
      for (const Value* v : node.outputs) wanted.push_back(v != nullptr);
      results = evaluate_op(find_op(node.op), node.attrs, inputs, wanted);
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i] != nullptr) values_[node.outputs[i]] = results.at(i);
    }
  }

  // Carried values only: scan outputs are not needed by the tests.
  std::vector<Tensor> run_loop(const Node& node) {
    const Graph& body = *node.bodies[0];
    const int64_t trips = node.inputs[0] == nullptr ? INT64_MAX : get(node.inputs[0]).to_i64()[0];
    bool condition = node.inputs[1] == nullptr || get(node.inputs[1]).as<uint8_t>()[0] != 0;
    std::vector<Tensor> carried;
    for (size_t i = 2; i < node.inputs.size(); ++i) carried.push_back(get(node.inputs[i]));
    for (int64_t trip = 0; trip < trips && condition; ++trip) {
      values_[body.inputs[0]] = Tensor::vector_i64(std::span(&trip, 1)).reshaped({});
      Tensor flag(DType::BOOL, {});
      flag.as<uint8_t>()[0] = 1;
      values_[body.inputs[1]] = flag;
      for (size_t i = 0; i < carried.size(); ++i) values_[body.inputs[2 + i]] = carried[i];
      std::vector<Tensor> results = run_body(body);
      condition = results[0].as<uint8_t>()[0] != 0;
      carried.assign(results.begin() + 1, results.end());
    }
    return carried;
  }

  std::unordered_map<const Value*, Tensor> values_;
};

inline std::vector<Tensor> eval_graph(const Graph& graph, const std::vector<Tensor>& inputs) {
  return GraphInterpreter().run(graph, inputs);
}

}  // namespace deepjit
