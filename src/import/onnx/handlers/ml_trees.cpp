// ai.onnx.ml: TreeEnsemble and its forerunners TreeEnsembleRegressor and TreeEnsembleClassifier.
//
// Nodes come by index (TreeEnsemble) or by tree and node id (the forerunners).
#include <cmath>

#include "import/onnx/handlers/arithmetic.h"
#include "import/onnx/handlers/ml.h"
#include "import/onnx/handlers/ml_forest.h"
#include "ops/ml/ml.h"

namespace deepjit::importer {

namespace {

// The type that features are compared in: that of the input, where it is one; integers as float64, float16 as float32.
Value* compared_input(NodeImport& node, DType& dtype) {
  Value* x = node.require_input(0);
  const DType given = dtype_of(x);
  if (given == DType::UNDEFINED) throw Error(Code::UNSUPPORTED_OP, "an input of unknown type is not supported");
  dtype = given == DType::FLOAT32 || given == DType::FLOAT16 ? DType::FLOAT32 : DType::FLOAT64;
  return Arithmetic(node, x).cast(x, dtype);
}

std::vector<double> real_list(const Attributes& attrs, const std::string& name) {
  if (const Tensor* tensor = attrs.get_tensor(name + "_as_tensor")) return tensor->to_f64();
  const std::vector<float> values = attrs.get_floats(name);
  return {values.begin(), values.end()};
}

void expect_length(size_t got, size_t want, const char* name) {
  if (got != want)
    malformed_trees(std::string(name) + " has " + std::to_string(got) + " entries, expected " + std::to_string(want));
}

int64_t target_count(const Attributes& attrs) {
  constexpr int64_t kMost = 1 << 20;
  const int64_t count = attrs.get_int("n_targets", 1);
  if (count < 1 || count > kMost) {
    throw Error(Code::LIMIT, "n_targets is " + std::to_string(count) + ", supported are 1 to " + std::to_string(kMost));
  }
  return count;
}

// ---- TreeEnsemble ---------------------------------------------------------------------------------

std::vector<double> tensor_list(const Attributes& attrs, const char* name) {
  const Tensor* tensor = attrs.get_tensor(name);
  if (tensor == nullptr) throw Error(Code::ATTRIBUTE, std::string("attribute ") + name + " is required");
  return tensor->to_f64();
}

// Lists of values, each ended by a NaN.
std::vector<std::vector<double>> value_sets(const Attributes& attrs) {
  std::vector<std::vector<double>> sets;
  if (attrs.get_tensor("membership_values") == nullptr) return sets;
  std::vector<double> set;
  for (double v : tensor_list(attrs, "membership_values")) {
    if (!std::isnan(v)) {
      set.push_back(v);
      continue;
    }
    sets.push_back(std::move(set));
    set.clear();
  }
  if (!set.empty()) malformed_trees("membership_values does not end with NaN");
  return sets;
}

int64_t child_of(int64_t id, int64_t is_leaf, size_t nodes, size_t leaves) {
  if (id < 0 || id >= static_cast<int64_t>(is_leaf != 0 ? leaves : nodes)) {
    malformed_trees("child " + std::to_string(id) + " is out of range");
  }
  return is_leaf != 0 ? ~id : id;
}

std::string numbered(const Attributes& attrs, const char* name, int64_t fallback,
                     const std::vector<std::string>& names) {
  const int64_t number = attrs.get_int(name, fallback);
  if (number < 0 || number >= static_cast<int64_t>(names.size())) {
    throw Error(Code::ATTRIBUTE, std::string(name) + " is " + std::to_string(number));
  }
  return names[static_cast<size_t>(number)];
}

void add_branches(const Attributes& attrs, Forest& forest) {
  const std::vector<double> modes = tensor_list(attrs, "nodes_modes");
  const std::vector<double> splits = tensor_list(attrs, "nodes_splits");
  const size_t n = modes.size();
  const auto list = [&](const char* name) {
    std::vector<int64_t> values = attrs.get_ints(name);
    expect_length(values.size(), n, name);
    return values;
  };
  expect_length(splits.size(), n, "nodes_splits");
  const std::vector<int64_t> features = list("nodes_featureids");
  const std::vector<int64_t> yes = list("nodes_truenodeids");
  const std::vector<int64_t> no = list("nodes_falsenodeids");
  const std::vector<int64_t> yes_leaf = list("nodes_trueleafs");
  const std::vector<int64_t> no_leaf = list("nodes_falseleafs");
  const std::vector<int64_t> missing = attrs.get_ints("nodes_missing_value_tracks_true");
  if (!missing.empty()) expect_length(missing.size(), n, "nodes_missing_value_tracks_true");
  int32_t sets = 0;
  for (size_t i = 0; i < n; ++i) {
    Branch b;
    b.feature = to_int32(features[i], "feature");
    const bool member = modes[i] == static_cast<double>(TreeMode::MEMBER);
    if (member) b.set = sets++;
    b.mode = static_cast<int32_t>(modes[i]) | (!missing.empty() && missing[i] != 0 ? kMissingTrue : 0);
    b.split = member ? 0 : splits[i];
    b.yes = child_of(yes[i], yes_leaf[i], n, forest.leaves.size());
    b.no = child_of(no[i], no_leaf[i], n, forest.leaves.size());
    forest.branches.push_back(b);
  }
  expect_length(forest.sets.size(), static_cast<size_t>(sets), "membership_values");
}

void tree_ensemble(NodeImport& node) {
  const Attributes& attrs = node.attrs;
  DType dtype = DType::UNDEFINED;
  Value* x = compared_input(node, dtype);
  Forest forest;
  forest.base.assign(static_cast<size_t>(target_count(attrs)), 0);
  forest.aggregate = numbered(attrs, "aggregate_function", 1, {"AVERAGE", "SUM", "MIN", "MAX"});
  forest.sets = value_sets(attrs);
  const std::vector<double> weights = tensor_list(attrs, "leaf_weights");
  const std::vector<int64_t> targets = attrs.get_ints("leaf_targetids");
  expect_length(targets.size(), weights.size(), "leaf_targetids");
  for (size_t i = 0; i < weights.size(); ++i) forest.leaves.push_back({{to_int32(targets[i], "target"), weights[i]}});
  add_branches(attrs, forest);
  for (int64_t root : attrs.get_ints("tree_roots")) {
    forest.roots.push_back(child_of(root, 0, forest.branches.size(), 0));
  }
  Value* y = emit_forest(node, forest, x, dtype);
  y = post_transform(node, y,
                     numbered(attrs, "post_transform", 0, {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"}));
  node.define(0, "Identity", {Arithmetic(node, y).cast(y, dtype_of(node.input(0)))});
}

// ---- the forerunners ------------------------------------------------------------------------------

using NodeId = std::pair<int64_t, int64_t>;  // tree, node

int32_t mode_named(const std::string& name) {
  static const std::map<std::string, TreeMode> modes = {{"BRANCH_LEQ", TreeMode::LEQ}, {"BRANCH_LT", TreeMode::LT},
                                                        {"BRANCH_GTE", TreeMode::GTE}, {"BRANCH_GT", TreeMode::GT},
                                                        {"BRANCH_EQ", TreeMode::EQ},   {"BRANCH_NEQ", TreeMode::NEQ}};
  const auto found = modes.find(name);
  if (found == modes.end()) malformed_trees("a node has the mode \"" + name + "\"");
  return static_cast<int32_t>(found->second);
}

// The places of nodes: branches from 0 on, leaves as ~k. The first node of a tree is its root.
std::map<NodeId, int64_t> place_nodes(const Attributes& attrs, Forest& forest) {
  const std::vector<int64_t> trees = attrs.get_ints("nodes_treeids");
  const std::vector<int64_t> ids = attrs.get_ints("nodes_nodeids");
  const std::vector<std::string> modes = attrs.get_strings("nodes_modes");
  expect_length(ids.size(), trees.size(), "nodes_nodeids");
  expect_length(modes.size(), trees.size(), "nodes_modes");
  std::map<NodeId, int64_t> places;
  std::map<int64_t, bool> seen;
  int64_t branches = 0;
  int64_t leaves = 0;
  for (size_t i = 0; i < trees.size(); ++i) {
    const int64_t place = modes[i] == "LEAF" ? ~leaves++ : branches++;
    if (!places.emplace(NodeId{trees[i], ids[i]}, place).second) {
      malformed_trees("tree " + std::to_string(trees[i]) + " has two nodes " + std::to_string(ids[i]));
    }
    if (seen.emplace(trees[i], true).second) forest.roots.push_back(place);
  }
  forest.leaves.resize(static_cast<size_t>(leaves));
  return places;
}

int64_t find_place(const std::map<NodeId, int64_t>& places, int64_t tree, int64_t id) {
  const auto found = places.find({tree, id});
  if (found == places.end()) malformed_trees("tree " + std::to_string(tree) + " has no node " + std::to_string(id));
  return found->second;
}

// Branches, and leaves with the votes of attributes that start with `prefix` ("target_" or "class_").
Forest forest_by_ids(const Attributes& attrs, const std::string& prefix, int64_t targets) {
  Forest forest;
  const std::map<NodeId, int64_t> places = place_nodes(attrs, forest);
  const std::vector<int64_t> trees = attrs.get_ints("nodes_treeids");
  const std::vector<std::string> modes = attrs.get_strings("nodes_modes");
  const auto list = [&](const char* name) {
    std::vector<int64_t> values = attrs.get_ints(name);
    expect_length(values.size(), trees.size(), name);
    return values;
  };
  const std::vector<int64_t> features = list("nodes_featureids");
  const std::vector<int64_t> yes = list("nodes_truenodeids");
  const std::vector<int64_t> no = list("nodes_falsenodeids");
  const std::vector<double> splits = real_list(attrs, "nodes_values");
  expect_length(splits.size(), trees.size(), "nodes_values");
  const std::vector<int64_t> missing = attrs.get_ints("nodes_missing_value_tracks_true");
  if (!missing.empty()) expect_length(missing.size(), trees.size(), "nodes_missing_value_tracks_true");
  for (size_t i = 0; i < trees.size(); ++i) {
    if (modes[i] == "LEAF") continue;
    const int32_t flag = !missing.empty() && missing[i] != 0 ? kMissingTrue : 0;
    forest.branches.push_back({to_int32(features[i], "feature"), mode_named(modes[i]) | flag, 0, splits[i],
                               find_place(places, trees[i], yes[i]), find_place(places, trees[i], no[i])});
  }
  const std::vector<int64_t> vote_trees = attrs.get_ints(prefix + "treeids");
  const std::vector<int64_t> vote_nodes = attrs.get_ints(prefix + "nodeids");
  const std::vector<int64_t> vote_targets = attrs.get_ints(prefix + "ids");
  const std::vector<double> weights = real_list(attrs, prefix + "weights");
  expect_length(vote_nodes.size(), vote_trees.size(), "the list of votes");
  expect_length(vote_targets.size(), vote_trees.size(), "the list of votes");
  expect_length(weights.size(), vote_trees.size(), "the list of votes");
  for (size_t i = 0; i < vote_trees.size(); ++i) {
    const int64_t place = find_place(places, vote_trees[i], vote_nodes[i]);
    if (place >= 0) malformed_trees("a vote belongs to node " + std::to_string(vote_nodes[i]) + ", which is no leaf");
    if (vote_targets[i] >= targets) malformed_trees("a vote is for target " + std::to_string(vote_targets[i]));
    forest.leaves[static_cast<size_t>(~place)].push_back({to_int32(vote_targets[i], "target"), weights[i]});
  }
  return forest;
}

void set_base(const Attributes& attrs, int64_t targets, Forest& forest) {
  forest.base = real_list(attrs, "base_values");
  if (forest.base.empty()) forest.base.assign(static_cast<size_t>(targets), 0);
  expect_length(forest.base.size(), static_cast<size_t>(targets), "base_values");
}

void tree_ensemble_regressor(NodeImport& node) {
  DType dtype = DType::UNDEFINED;
  Value* x = compared_input(node, dtype);
  const int64_t targets = target_count(node.attrs);
  Forest forest = forest_by_ids(node.attrs, "target_", targets);
  forest.aggregate = node.attrs.get_string("aggregate_function", "SUM");
  set_base(node.attrs, targets, forest);
  Value* y = post_transform(node, emit_forest(node, forest, x, dtype), node.attrs.get_string("post_transform", "NONE"));
  node.define(0, "Identity", {Arithmetic(node, y).cast(y, DType::FLOAT32)});
}

// Do all votes go to class 0? Then its score alone decides between two classes.
bool one_score(const Forest& forest) {
  for (const auto& votes : forest.leaves) {
    for (const auto& [target, weight] : votes) {
      if (target != 0) return false;
    }
  }
  return true;
}

bool only_positive(const Forest& forest) {
  for (const auto& votes : forest.leaves) {
    for (const auto& [target, weight] : votes) {
      if (weight < 0) return false;
    }
  }
  return true;
}

void tree_ensemble_classifier(NodeImport& node) {
  DType dtype = DType::UNDEFINED;
  Value* x = compared_input(node, dtype);
  const Tensor labels = class_labels(node, "classlabels_strings", "classlabels_int64s");
  Forest forest = forest_by_ids(node.attrs, "class_", labels.count());
  const bool two = labels.count() == 2 && one_score(forest);
  set_base(node.attrs, two ? 1 : labels.count(), forest);
  const Arithmetic m(node, x);
  Value* scores = m.cast(emit_forest(node, forest, x, dtype), DType::FLOAT32);
  if (two) {
    const bool positive = only_positive(forest);
    return define_two_classes(node, scores, positive ? 0.5 : 0, positive, labels);
  }
  Attributes top;
  top.set("axis", int64_t{-1});
  top.set("keepdims", int64_t{0});
  Value* index = node.emit("ArgMax", {scores}, top);
  define_classes(node, index, labels, post_transform(node, scores, node.attrs.get_string("post_transform", "NONE")));
}

}  // namespace

void add_tree_handlers(HandlerMap& map) {
  map["ai.onnx.ml.TreeEnsemble"] = tree_ensemble;
  map["ai.onnx.ml.TreeEnsembleRegressor"] = tree_ensemble_regressor;
  map["ai.onnx.ml.TreeEnsembleClassifier"] = tree_ensemble_classifier;
}

}  // namespace deepjit::importer
