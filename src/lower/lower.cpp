#include "lower/lower.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "lower/explain.h"
#include "lower/regions.h"

namespace deepjit {

namespace {

class Lowering {
 public:
  Lowering(const Graph& graph, const LowerOptions& options) : options_(options), origins_(graph) {}

  Program run(const Graph& graph) {
    program_.name = graph.name;
    program_.blocks.emplace_back();
    lower_block(graph, 0);
    for (const Value* v : graph.inputs) {
      ProgramInput input;
      input.name = v->name;
      input.buffer = buffer(v);
      input.default_value = v->default_value;
      program_.inputs.push_back(std::move(input));
    }
    for (const Value* v : graph.outputs) program_.outputs.push_back({v->name, buffer(v)});
    return std::move(program_);
  }

 private:
  int32_t buffer(const Value* value) {
    if (value == nullptr) return -1;
    const auto [it, fresh] = numbers_.emplace(value, static_cast<int32_t>(program_.buffers.size()));
    if (fresh) program_.buffers.push_back({value->name, value->type, value->is_constant(), value->constant});
    return it->second;
  }

  void lower_block(const Graph& graph, int32_t index) {
    Block block;
    for (const Value* v : graph.inputs) block.inputs.push_back(buffer(v));
    const RegionPlan plan = options_.regions ? plan_regions(graph) : plan_singly(graph);
    for (const RegionPlan::Unit& unit : plan.units) {
      if (unit.fused)
        block.steps.push_back(lower_region(unit.nodes));
      else
        for (const Node* node : unit.nodes) block.steps.push_back(lower_node(*node));
    }
    for (const Boundary& boundary : plan.boundaries) note(boundary);
    for (const Value* v : graph.outputs) block.outputs.push_back(buffer(v));
    program_.blocks[static_cast<size_t>(index)] = std::move(block);
  }

  void note(const Boundary& boundary) {
    // The two could be one kernel: the planner joins each node once and does not come back to it.
    if (boundary.why.rule == Why::NONE) return;
    const Edge& edge = boundary.edge;
    LedgerEntry entry;
    entry.value = buffer(edge.value);
    entry.producer = step_of_.at(edge.producer);
    entry.consumer = step_of_.at(edge.consumer);
    entry.rule = boundary.why.rule;
    entry.reason = boundary.why.reason;
    entry.fix = origins_.fix_for(boundary.why);
    // An output is written in any case, and any other value once.
    entry.bytes = bytes_of(edge.value->type, !Graph::is_output(edge.value) && written_.insert(edge.value).second);
    entry.launches = boundary.costs_launch ? 1 : 0;
    program_.ledger.push_back(std::move(entry));
  }

  int32_t lower_node(const Node& node) {
    Step step;
    step.op = node.op;
    step.name = node.name;
    step.attrs = node.attrs;
    step.origins = node.origins;
    for (const Value* v : node.inputs) step.inputs.push_back(buffer(v));
    for (const Value* v : node.outputs) {
      const bool read = v != nullptr && (!v->users.empty() || Graph::is_output(v));
      step.outputs.push_back(read ? buffer(v) : -1);
    }
    for (const auto& body : node.bodies) {
      const auto index = static_cast<int32_t>(program_.blocks.size());
      program_.blocks.emplace_back();
      step.blocks.push_back(index);
      lower_block(*body, index);
    }
    program_.steps.push_back(std::move(step));
    return step_of_[&node] = static_cast<int32_t>(program_.steps.size()) - 1;
  }

  // A step over all of the region's operands, and a block with the steps that it stands for.
  int32_t lower_region(const std::vector<const Node*>& nodes) {
    Step step;
    std::vector<int32_t> steps;
    for (const Node* node : nodes) {
      step.name += (step.name.empty() ? "" : "+") + node->name;
      step.origins.insert(step.origins.end(), node->origins.begin(), node->origins.end());
      steps.push_back(lower_node(*node));
    }
    if (nodes.size() > 2) step.name = nodes.front()->name + "+..+" + nodes.back()->name;
    const auto inside = [&](const Node* node) { return std::count(nodes.begin(), nodes.end(), node) != 0; };
    for (const Node* node : nodes) {
      for (const Value* v : node->inputs) {
        const int32_t number = buffer(v);
        if (v == nullptr || inside(v->producer) || std::count(step.inputs.begin(), step.inputs.end(), number) != 0)
          continue;
        step.inputs.push_back(number);
      }
      const Value* out = node->output();
      const bool leaves = Graph::is_output(out) || !std::all_of(out->users.begin(), out->users.end(), inside);
      if (leaves) step.outputs.push_back(buffer(out));
    }
    return add_region_step(program_, std::move(step), std::move(steps));
  }

  const LowerOptions& options_;
  Program program_;
  std::unordered_map<const Value*, int32_t> numbers_;
  std::unordered_map<const Node*, int32_t> step_of_;
  std::set<const Value*> written_;  // of the ledger's values, those whose writing is counted
  DimOrigins origins_;
};

}  // namespace

Program lower(const Graph& graph, const LowerOptions& options) { return Lowering(graph, options).run(graph); }

}  // namespace deepjit
