#include "lower/regions.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <queue>
#include <set>

#include "codegen/region/region.h"
#include "lower/explain.h"

namespace deepjit {

namespace {

constexpr size_t kMostNodes = 96;  // of one region: kernels stay readable and quick to compile

OpView view_of(const Node& node) {
  OpView view;
  view.op = node.op;
  view.attrs = &node.attrs;
  for (const Value* v : node.inputs) {
    view.inputs.push_back(v == nullptr ? TensorType{} : v->type);
    view.constants.push_back(v != nullptr && v->is_constant() ? &v->constant : nullptr);
  }
  for (const Value* v : node.outputs) {
    const bool read = v != nullptr && Graph::use_count(v) > 0;
    view.outputs.push_back(read ? v->type : TensorType{});
  }
  return view;
}

// Shapes and sizes are computed when shapes are bound, not by kernels.
bool is_shape_arithmetic(const Node& node) {
  const Value* out = node.output();
  return is_integer(out->type.dtype) && out->type.shape.ranked() && out->type.shape.rank() <= 1;
}

Refusal why_alone(const Node& node) {
  if (!node.bodies.empty()) return {Why::CONTROL_FLOW, node.op + " is control flow"};
  if (node.output() == nullptr) return {Why::SEVERAL_OUTPUTS, node.op + " is read only by a later output"};
  const OpView view = view_of(node);
  if (Refusal why = why_not_fusable(view); !why.empty()) return why_not_generated(node, std::move(why));
  if (is_shape_arithmetic(node)) return {Why::SHAPE_ARITHMETIC, node.op + " computes sizes"};
  return {};
}

// The region of a set of nodes, in codegen's terms.
class RegionMaker {
 public:
  explicit RegionMaker(const std::vector<const Node*>& nodes) : inside_(nodes.begin(), nodes.end()) {
    for (const Node* node : nodes) {
      RegionOp op;
      op.view = view_of(*node);
      for (const Value* v : node->inputs) op.inputs.push_back(v == nullptr ? -1 : number(v));
      op.output = number(node->output());
      region_.ops.push_back(std::move(op));
    }
    for (const Node* node : nodes) {
      if (is_read_outside(node->output())) region_.outputs.push_back(number(node->output()));
    }
  }
  const Region& region() const { return region_; }

 private:
  int number(const Value* value) {
    const auto [it, fresh] = numbers_.emplace(value, static_cast<int>(region_.values.size()));
    if (!fresh) return it->second;
    region_.values.push_back(value->type);
    region_.data.push_back(value->is_constant() ? &value->constant : nullptr);
    if (inside_.count(value->producer) == 0) region_.inputs.push_back(it->second);
    return it->second;
  }

  bool is_read_outside(const Value* value) const {
    return Graph::is_output(value) || std::any_of(value->users.begin(), value->users.end(),
                                                  [&](const Node* user) { return inside_.count(user) == 0; });
  }

  std::set<const Node*> inside_;
  Region region_;
  std::map<const Value*, int> numbers_;
};

class Planner {
 public:
  explicit Planner(const Graph& graph) : graph_(graph) {
    for (const auto& node : graph.nodes()) {
      position_[node.get()] = nodes_.size();
      nodes_.push_back(node.get());
    }
    unit_.resize(nodes_.size());
    alone_.resize(nodes_.size());
    for (size_t i = 0; i < nodes_.size(); ++i) {
      unit_[i] = i;
      furthest_.push_back(i);
      members_.push_back({i});
      alone_[i] = why_alone(*nodes_[i]);
    }
  }

  RegionPlan run() {
    // Twice: a value with several readers, which are one region after the first round, may join them.
    for (int round = 0; round < 2; ++round) {
      for (size_t i = 0; i < nodes_.size(); ++i) {
        if (alone_[i].empty()) join(i);
      }
    }
    trim();
    note_boundaries();
    emit();
    return std::move(plan_);
  }

 private:
  // Producers of a node within this graph: what it or its bodies read.
  void each_producer(size_t i, const std::function<void(size_t)>& f) const {
    const std::function<void(const Node*)> visit = [&](const Node* node) {
      for (const Value* v : node->inputs) {
        if (v != nullptr && v->producer != nullptr && v->graph == &graph_) f(position_.at(v->producer));
      }
      for (const auto& body : node->bodies) {
        for (const auto& inner : body->nodes()) visit(inner.get());
        for (const Value* v : body->outputs) {
          if (v->graph == &graph_ && v->producer != nullptr) f(position_.at(v->producer));
        }
      }
    };
    visit(nodes_[i]);
  }

  void join(size_t i) {
    std::map<size_t, std::vector<size_t>, std::greater<>> candidates;  // units and the producers in them
    each_producer(i, [&](size_t p) {
      if (alone_[p].empty() && unit_[p] != unit_[i]) candidates[unit_[p]].push_back(p);
    });
    for (const auto& [unit, producers] : candidates) {
      std::vector<size_t> merged = members_[unit];
      merged.insert(merged.end(), members_[unit_[i]].begin(), members_[unit_[i]].end());
      std::sort(merged.begin(), merged.end());
      const auto known = tried_.find(merged);
      Refusal why = known != tried_.end() ? known->second : why_not_one(merged);
      if (why.empty()) {
        merge(unit, unit_[i], std::move(merged));
      } else {
        tried_[merged] = why;
        why = with_nodes(std::move(why), nodes_of(merged));
        for (size_t p : producers) refused_[{p, i}] = why;
      }
    }
  }

  Refusal why_not_one(const std::vector<size_t>& members) const {
    if (members.size() > kMostNodes) {
      return {Why::REGION_TOO_LARGE, "the kernel would have more than " + std::to_string(kMostNodes) + " operators"};
    }
    if (const auto between = runs_through_others(members)) {
      const Node& step = *nodes_[*between];
      return {Why::STEP_BETWEEN, step.op + " \"" + step.name + "\" must run in between"};
    }
    return build_kernel(RegionMaker(nodes_of(members)).region()).refusal;
  }

  std::vector<const Node*> nodes_of(const std::vector<size_t>& members) const {
    std::vector<const Node*> out;
    for (size_t m : members) out.push_back(nodes_[m]);
    return out;
  }

  // A node on a path from a member over other units back to a member, if there is one.
  std::optional<size_t> runs_through_others(const std::vector<size_t>& members) const {
    const std::set<size_t> inside(members.begin(), members.end());
    std::set<size_t> seen;
    std::vector<size_t> work;
    auto visit_unit_inputs = [&](const std::vector<size_t>& unit) {
      for (size_t m : unit) {
        each_producer(m, [&](size_t p) {
          if (inside.count(p) != 0 || latest_needed(members_[unit_[p]].back()) < members.front()) return;
          if (seen.insert(unit_[p]).second) work.push_back(unit_[p]);
        });
      }
    };
    visit_unit_inputs(members);
    while (!work.empty()) {
      const size_t unit = work.back();
      work.pop_back();
      for (size_t m : members_[unit]) {
        bool back = false;
        each_producer(m, [&](size_t p) { back = back || inside.count(p) != 0; });
        if (back) return m;
      }
      visit_unit_inputs(members_[unit]);
    }
    return std::nullopt;
  }

  // A position that nothing lies behind of what the nodes up to this one, and the units that they are in, depend on.
  size_t latest_needed(size_t position) const {
    while (furthest_[position] > position) position = furthest_[position];
    return position;
  }

  void merge(size_t a, size_t b, std::vector<size_t> merged) {
    const size_t keep = std::min(a, b);
    for (size_t i = merged.front(); i < merged.back(); ++i) furthest_[i] = std::max(furthest_[i], merged.back());
    members_[a].clear();
    members_[b].clear();
    for (size_t m : merged) unit_[m] = keep;
    members_[keep] = std::move(merged);
  }

  // Views that cost nothing do not belong at the edge of a region.
  void trim() {
    for (size_t unit = 0; unit < members_.size(); ++unit) {
      for (bool changed = true; changed;) {
        changed = false;
        for (size_t m : std::vector<size_t>(members_[unit])) {
          if (members_[unit].size() < 2 || !is_alias(nodes_[m]->op) || !at_edge(m, unit)) continue;
          std::vector<size_t> rest = members_[unit];
          rest.erase(std::find(rest.begin(), rest.end(), m));
          if (runs_through_others(rest) || !build_kernel(RegionMaker(nodes_of(rest)).region()).kernel) continue;
          members_[unit] = std::move(rest);
          members_.push_back({m});
          unit_[m] = members_.size() - 1;
          changed = true;
        }
      }
    }
  }

  bool at_edge(size_t m, size_t unit) const {
    const Value* in = nodes_[m]->input(0);
    const bool first = in->producer == nullptr || in->graph != &graph_ || unit_[position_.at(in->producer)] != unit;
    const auto& users = nodes_[m]->output()->users;
    const bool last = std::none_of(users.begin(), users.end(), [&](const Node* user) {
      return user->graph == &graph_ && unit_[position_.at(user)] == unit;
    });
    return first || last;
  }

  void note_boundaries() {
    std::set<std::pair<size_t, size_t>> seen;
    for (Edge& edge : data_edges(graph_)) {
      const size_t from = unit_[position_.at(edge.producer)];
      const size_t to = unit_[position_.at(edge.consumer)];
      if (from == to) continue;
      Refusal why = why_boundary(edge);
      plan_.boundaries.push_back({std::move(edge), std::move(why), seen.insert({from, to}).second});
    }
  }

  Refusal why_boundary(const Edge& edge) const {
    if (Refusal why = why_by_nodes(edge); !why.empty()) return why;
    std::vector<size_t> path = {position_.at(edge.producer)};
    for (const Node* view : edge.views) path.push_back(position_.at(view));
    path.push_back(position_.at(edge.consumer));
    for (size_t node : {path.front(), path.back()}) {
      if (!alone_[node].empty()) return alone_[node];
    }
    for (size_t i = path.size(); i-- > 0;) {
      if (!alone_[path[i]].empty()) return alone_[path[i]];
      const auto refused = i == 0 ? refused_.end() : refused_.find({path[i - 1], path[i]});
      if (refused != refused_.end()) return refused->second;
    }
    return {Why::STEP_BETWEEN, "the other operands of \"" + edge.consumer->name + "\" decide where it runs"};
  }

  // Units in topological order, the earliest first.
  void emit() {
    std::map<size_t, std::set<size_t>> before;
    std::map<size_t, std::vector<size_t>> after;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      before[unit_[i]];
      each_producer(i, [&](size_t p) {
        if (unit_[p] != unit_[i] && before[unit_[i]].insert(unit_[p]).second) after[unit_[p]].push_back(unit_[i]);
      });
    }
    // By the position of the last member: steps keep their order where they can.
    std::priority_queue<std::pair<size_t, size_t>, std::vector<std::pair<size_t, size_t>>, std::greater<>> ready;
    std::map<size_t, size_t> left;
    for (const auto& [unit, needs] : before) {
      left[unit] = needs.size();
      if (needs.empty()) ready.emplace(members_[unit].back(), unit);
    }
    size_t done = 0;
    while (!ready.empty()) {
      const size_t unit = ready.top().second;
      ready.pop();
      ++done;
      RegionPlan::Unit out;
      out.nodes = nodes_of(members_[unit]);
      const std::string& op = out.nodes[0]->op;
      const bool lone_view = out.nodes.size() == 1 && is_view_op(op) && !is_computed_view(op);
      out.fused = alone_[members_[unit].front()].empty() && !lone_view;
      if (out.fused && out.nodes.size() == 1) {
        out.fused = build_kernel(RegionMaker(out.nodes).region()).kernel.has_value();
      }
      plan_.units.push_back(std::move(out));
      for (size_t next : after[unit]) {
        if (--left[next] == 0) ready.emplace(members_[next].back(), next);
      }
    }
    check_internal(done == before.size(), "lower: regions form a cycle");
  }

  const Graph& graph_;
  std::vector<const Node*> nodes_;
  std::map<const Node*, size_t> position_;
  std::vector<size_t> unit_;                              // of each node
  std::vector<std::vector<size_t>> members_;              // of each unit, in order
  std::vector<size_t> furthest_;                          // where the units of the nodes up to here end, at the most
  std::vector<Refusal> alone_;                            // why a node is in no region
  std::map<std::pair<size_t, size_t>, Refusal> refused_;  // (producer, node)
  std::map<std::vector<size_t>, Refusal> tried_;          // nodes that are no kernel together
  RegionPlan plan_;
};

}  // namespace

RegionPlan plan_regions(const Graph& graph) { return Planner(graph).run(); }

RegionPlan plan_singly(const Graph& graph) {
  RegionPlan plan;
  for (const auto& node : graph.nodes()) plan.units.push_back({{node.get()}, false});
  std::set<std::pair<const Node*, const Node*>> seen;
  for (Edge& edge : data_edges(graph)) {
    const bool first = seen.insert({edge.producer, edge.consumer}).second;
    plan.boundaries.push_back({std::move(edge), {Why::FUSION_OFF, "regions are switched off"}, first});
  }
  return plan;
}

std::vector<bool> blocks_of_regions(const Program& program) {
  std::vector<bool> of_region(program.blocks.size(), false);
  for (const Step& step : program.steps) {
    if (step.op == kRegionOp) of_region[static_cast<size_t>(step.blocks[0])] = true;
  }
  return of_region;
}

int32_t add_region_step(Program& program, Step region, std::vector<int32_t> steps) {
  Block block;
  block.steps = std::move(steps);
  block.inputs = region.inputs;
  block.outputs = region.outputs;
  region.op = kRegionOp;
  region.blocks.push_back(static_cast<int32_t>(program.blocks.size()));
  program.blocks.push_back(std::move(block));
  program.steps.push_back(std::move(region));
  return static_cast<int32_t>(program.steps.size()) - 1;
}

}  // namespace deepjit
