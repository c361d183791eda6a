#include <algorithm>
#include <limits>

#include "base/visit.h"
#include "ops/common.h"
#include "ops/ml/ml.h"

namespace deepjit {

namespace {

enum class Join { SUM, AVERAGE, MIN, MAX };

Join join_of(const Attributes& attrs) {
  const std::string name = attrs.get_string("aggregate", "SUM");
  if (name == "SUM") return Join::SUM;
  if (name == "AVERAGE") return Join::AVERAGE;
  if (name == "MIN") return Join::MIN;
  if (name == "MAX") return Join::MAX;
  throw Error(Code::ATTRIBUTE, "TreeEnsemble: aggregate must be SUM, AVERAGE, MIN or MAX, got \"" + name + "\"");
}

[[noreturn]] void malformed(const std::string& what) { throw Error(Code::ATTRIBUTE, "TreeEnsemble: " + what); }

// Bounds of ranges: from 0 to `total`, never falling.
void check_bounds(const Tensor& bounds, int64_t total, const char* what) {
  const int32_t* b = bounds.as<int32_t>();
  const int64_t n = bounds.count();
  if (n < 1 || b[0] != 0 || b[n - 1] != total || !std::is_sorted(b, b + n))
    malformed(std::string(what) + " are no ranges");
}

// What the evaluation relies on: every index is in range, and children come after their parents.
void check_forest(const InferContext& ctx, int64_t features) {
  const Tensor* nodes = ctx.input_data(1);
  const Tensor* roots = ctx.input_data(3);
  const Tensor* leaves = ctx.input_data(4);
  const Tensor* targets = ctx.input_data(5);
  if (nodes == nullptr || roots == nullptr || leaves == nullptr || targets == nullptr)
    malformed("the trees must be constants");
  const int64_t node_count = nodes->dims()[0];
  const int64_t leaf_count = leaves->count() - 1;
  check_bounds(*leaves, targets->count(), "leaves");
  const Tensor* sets = ctx.has_input(8) ? ctx.input_data(8) : nullptr;
  const int64_t set_count = sets == nullptr ? 0 : sets->count() - 1;
  if (sets != nullptr) check_bounds(*sets, ctx.shape(9)[0].value(), "sets");
  const auto check_child = [&](int32_t child, int64_t parent) {
    const bool fits = child >= 0 ? child > parent && child < node_count : ~child < leaf_count;
    if (!fits) malformed("child " + std::to_string(child) + " of node " + std::to_string(parent) + " is out of range");
  };
  for (int64_t i = 0; i < node_count; ++i) {
    const int32_t* n = nodes->as<int32_t>() + i * kTreeColumns;
    const int32_t mode = n[1] & ~kMissingTrue;
    if (n[0] < 0 || n[0] >= features) malformed("feature " + std::to_string(n[0]) + " is out of range");
    if (mode < 0 || mode > static_cast<int32_t>(TreeMode::MEMBER)) malformed("an unknown comparison");
    if (mode == static_cast<int32_t>(TreeMode::MEMBER) && (n[4] < 0 || n[4] >= set_count))
      malformed("a set is missing");
    check_child(n[2], i);
    check_child(n[3], i);
  }
  for (int64_t i = 0; i < roots->count(); ++i) check_child(roots->as<int32_t>()[i], -1);
  const int64_t target_count = ctx.shape(7)[0].value();
  for (int64_t i = 0; i < targets->count(); ++i) {
    const int32_t t = targets->as<int32_t>()[i];
    if (t < 0 || t >= target_count) malformed("target " + std::to_string(t) + " is out of range");
  }
}

void infer_trees(InferContext& ctx) {
  const Shape& x = ctx.shape(0);
  expect_type(ctx, "TreeEnsemble", 0, ctx.dtype(0) == DType::FLOAT32 || ctx.dtype(0) == DType::FLOAT64,
              "float32 or float64");
  for (int i : {2, 6, 7, 9}) {
    if (ctx.has_input(i)) expect_same_type(ctx, "TreeEnsemble", i, 0);
  }
  for (int i : {1, 3, 4, 5, 8}) {
    if (ctx.has_input(i)) expect_type(ctx, "TreeEnsemble", i, ctx.dtype(i) == DType::INT32, "int32");
  }
  for (int i = 1; i < ctx.num_inputs(); ++i) {
    const Shape& shape = ctx.shape(i);
    const int rank = i == 1 ? 2 : 1;
    if (!shape.ranked() || shape.rank() != rank || !shape.as_const()) malformed("an input has the wrong shape");
  }
  const bool fits = ctx.shape(1)[1] == kTreeColumns && ctx.shape(2)[0] == ctx.shape(1)[0] &&
                    ctx.shape(5)[0] == ctx.shape(6)[0] && ctx.has_input(8) == ctx.has_input(9);
  if (!fits) malformed("inputs do not fit each other");
  const int64_t features = ctx.attrs().require_int("features");
  join_of(ctx.attrs());
  check_forest(ctx, features);
  if (x.ranked() && (x.rank() != 2 || (x[1].is_const() && x[1].value() < features))) {
    throw Error(Code::SHAPE_MISMATCH, "TreeEnsemble: the input has shape " + x.to_string() + ", the trees need [N, " +
                                          std::to_string(features) + "] at least");
  }
  ctx.set_output(0, ctx.dtype(0), Shape({x.ranked() ? x[0] : ctx.fresh_dim(), ctx.shape(7)[0]}));
}

template <typename T>
struct Forest {
  const int32_t* nodes;
  const T* splits;
  const int32_t* sets;
  const T* members;

  bool takes_true(int32_t at, const int32_t* node, T v) const {
    if (v != v && (node[1] & kMissingTrue) != 0) return true;
    switch (static_cast<TreeMode>(node[1] & ~kMissingTrue)) {
      case TreeMode::LEQ:
        return v <= splits[at];
      case TreeMode::LT:
        return v < splits[at];
      case TreeMode::GTE:
        return v >= splits[at];
      case TreeMode::GT:
        return v > splits[at];
      case TreeMode::EQ:
        return v == splits[at];
      case TreeMode::NEQ:
        return v != splits[at];
      case TreeMode::MEMBER:
        break;
    }
    const T* end = members + sets[node[4] + 1];
    return std::find(members + sets[node[4]], end, v) != end;
  }

  // The leaf that a row ends in.
  int32_t leaf(int32_t at, const T* row) const {
    while (at >= 0) {
      const int32_t* node = nodes + static_cast<int64_t>(at) * kTreeColumns;
      at = takes_true(at, node, row[node[0]]) ? node[2] : node[3];
    }
    return ~at;
  }
};

void join_vote(Join join, double weight, double& sum, char& voted) {
  if (voted == 0) {
    sum = weight;
  } else if (join == Join::MIN) {
    sum = std::min(sum, weight);
  } else if (join == Join::MAX) {
    sum = std::max(sum, weight);
  } else {
    sum += weight;
  }
  voted = 1;
}

template <typename T>
void evaluate_rows(EvalContext& ctx, const TensorView& out) {
  const Forest<T> forest = {ctx.data<int32_t>(1), ctx.data<T>(2), ctx.has_input(8) ? ctx.data<int32_t>(8) : nullptr,
                            ctx.has_input(9) ? ctx.data<T>(9) : nullptr};
  const int32_t* leaves = ctx.data<int32_t>(4);
  const int64_t trees = ctx.input(3).count();
  const int64_t targets = out.dims[1];
  const Join join = join_of(ctx.attrs());
  const double divisor = join == Join::AVERAGE && trees > 0 ? static_cast<double>(trees) : 1;
  auto* sums = static_cast<double*>(ctx.scratch(static_cast<size_t>(targets) * sizeof(double)));
  auto* voted = static_cast<char*>(ctx.scratch(static_cast<size_t>(targets)));
  for (int64_t r = 0; r < out.dims[0]; ++r) {
    std::fill_n(sums, targets, 0.0);
    std::fill_n(voted, targets, 0);
    for (int64_t t = 0; t < trees; ++t) {
      const int32_t leaf = forest.leaf(ctx.data<int32_t>(3)[t], ctx.data<T>(0) + r * ctx.dims(0)[1]);
      for (int32_t v = leaves[leaf]; v < leaves[leaf + 1]; ++v) {
        const int32_t target = ctx.data<int32_t>(5)[v];
        join_vote(join, static_cast<double>(ctx.data<T>(6)[v]), sums[target], voted[target]);
      }
    }
    for (int64_t k = 0; k < targets; ++k) {
      const double base = static_cast<double>(ctx.data<T>(7)[k]);
      out.as<T>()[r * targets + k] = static_cast<T>(sums[k] / divisor + base);
    }
  }
}

void evaluate_trees(EvalContext& ctx) {
  const Dims& x = ctx.dims(0);
  if (x.rank() != 2 || x[1] < ctx.attrs().require_int("features")) {
    throw Error(Code::SHAPE_MISMATCH, "TreeEnsemble: the input has shape " + x.to_string() + ", too few features");
  }
  const TensorView out = ctx.output(0, ctx.dtype(0), {x[0], ctx.dims(7)[0]});
  if (out.dtype == DType::FLOAT64) return evaluate_rows<double>(ctx, out);
  evaluate_rows<float>(ctx, out);
}

}  // namespace

void add_tree_ops(OpRegistry& registry) {
  registry.add({.name = "deepjit.TreeEnsemble",
                .min_inputs = 8,
                .max_inputs = 10,
                .infer = infer_trees,
                .evaluate = evaluate_trees});
}

}  // namespace deepjit
