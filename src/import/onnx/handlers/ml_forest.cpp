#include "import/onnx/handlers/ml_forest.h"

#include <algorithm>
#include <array>

#include "ops/ml/ml.h"

namespace deepjit::importer {

void malformed_trees(const std::string& why) { throw Error(Code::ATTRIBUTE, "the trees are malformed: " + why); }

int32_t to_int32(int64_t value, const char* what) {
  if (value < 0 || value > INT32_MAX)
    malformed_trees(std::string(what) + " " + std::to_string(value) + " is out of range");
  return static_cast<int32_t>(value);
}

namespace {

// The nodes that the roots reach, children behind their parents.
std::vector<int64_t> parents_first(const Forest& forest) {
  enum : char { NEW, OPEN, DONE };
  std::vector<char> state(forest.branches.size(), NEW);
  std::vector<int64_t> done;
  std::vector<int64_t> stack;
  const auto visit = [&](int64_t i) {
    if (i < 0) return;
    if (state[static_cast<size_t>(i)] == OPEN) malformed_trees("node " + std::to_string(i) + " is its own descendant");
    if (state[static_cast<size_t>(i)] == NEW) stack.push_back(i);
  };
  for (int64_t root : forest.roots) {
    visit(root);
    while (!stack.empty()) {
      const auto i = static_cast<size_t>(stack.back());
      if (state[i] == NEW) {
        state[i] = OPEN;
        visit(forest.branches[i].yes);
        visit(forest.branches[i].no);
        continue;
      }
      if (state[i] == OPEN) done.push_back(stack.back());
      state[i] = DONE;
      stack.pop_back();
    }
  }
  return {done.rbegin(), done.rend()};
}

Tensor reals(DType dtype, const std::vector<double>& values) {
  Tensor out(dtype, {static_cast<int64_t>(values.size())});
  for (size_t i = 0; i < values.size(); ++i) {
    if (dtype == DType::FLOAT64) {
      out.as<double>()[i] = values[i];
    } else {
      out.as<float>()[i] = static_cast<float>(values[i]);
    }
  }
  return out;
}

Tensor indices(const std::vector<int32_t>& values) {
  return Tensor::from<int32_t>(DType::INT32, {static_cast<int64_t>(values.size())}, std::span(values));
}

struct NodeTable {
  Tensor nodes;
  std::vector<double> splits;
  std::vector<int32_t> roots;
  int64_t features = 0;
};

NodeTable node_table(const Forest& forest) {
  const std::vector<int64_t> order = parents_first(forest);
  std::vector<int64_t> place(forest.branches.size(), -1);
  for (size_t i = 0; i < order.size(); ++i) place[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  const auto moved = [&](int64_t child) {
    return static_cast<int32_t>(child < 0 ? child : place[static_cast<size_t>(child)]);
  };
  NodeTable out;
  out.nodes = Tensor(DType::INT32, {static_cast<int64_t>(order.size()), kTreeColumns});
  auto* row = out.nodes.as<std::array<int32_t, kTreeColumns>>();
  for (int64_t i : order) {
    const Branch& b = forest.branches[static_cast<size_t>(i)];
    *row++ = {b.feature, b.mode, moved(b.yes), moved(b.no), b.set};
    out.splits.push_back(b.split);
    out.features = std::max<int64_t>(out.features, b.feature + 1);
  }
  for (int64_t root : forest.roots) out.roots.push_back(moved(root));
  return out;
}

}  // namespace

Value* emit_forest(NodeImport& node, const Forest& forest, Value* x, DType dtype) {
  const NodeTable table = node_table(forest);
  std::vector<int32_t> leaves = {0};
  std::vector<int32_t> targets;
  std::vector<double> weights;
  for (const auto& votes : forest.leaves) {
    for (const auto& [target, weight] : votes) {
      targets.push_back(target);
      weights.push_back(weight);
    }
    leaves.push_back(to_int32(static_cast<int64_t>(targets.size()), "the number of votes"));
  }
  std::vector<int32_t> bounds = {0};
  std::vector<double> members;
  for (const std::vector<double>& set : forest.sets) {
    members.insert(members.end(), set.begin(), set.end());
    bounds.push_back(static_cast<int32_t>(members.size()));
  }
  std::vector<Value*> inputs = {x,
                                node.constant(table.nodes),
                                node.constant(reals(dtype, table.splits)),
                                node.constant(indices(table.roots)),
                                node.constant(indices(leaves)),
                                node.constant(indices(targets)),
                                node.constant(reals(dtype, weights)),
                                node.constant(reals(dtype, forest.base))};
  if (!forest.sets.empty()) {
    inputs.push_back(node.constant(indices(bounds)));
    inputs.push_back(node.constant(reals(dtype, members)));
  }
  Attributes attrs;
  attrs.set("aggregate", forest.aggregate);
  attrs.set("features", table.features);
  return node.emit("deepjit.TreeEnsemble", inputs, attrs);
}

}  // namespace deepjit::importer
