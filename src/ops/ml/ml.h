// Ops of classical machine learning that nothing else expresses. Import brings ONNX's ai.onnx.ml forms here.
#pragma once

#include "ops/op.h"

namespace deepjit {

// deepjit.LabelEncoder: x of any shape -> for each element the value at the place of its key.
//   keys     attribute, 1-D, of x's type (integers, float32, float64, string): ascending, no two alike, NaN last
//   values   attribute, 1-D, as many, of any type: the output's
//   fallback attribute, one element of the output's type: for elements that are no key; without it they are an error
void add_label_encoder_op(OpRegistry& registry);

// deepjit.TreeEnsemble: x[N, F] -> [N, targets], of type T = float32 or float64. Inputs after x:
//   1 nodes   int32 [n, 5]: feature, comparison (TreeMode), child if true, child if false, set of values (MEMBER).
//             A child is a node behind its parent, or ~k for leaf k.
//   2 splits  T [n]: what the feature is compared with
//   3 roots   int32 [trees]: a node, or ~k
//   4 leaves  int32 [leaves + 1]: leaf k has the votes from leaves[k] to leaves[k + 1]
//   5, 6      votes: int32 targets and T weights
//   7 base    T [targets]: added at the end
//   8, 9      sets (MEMBER only): int32 [sets + 1] bounds, T values
// The votes for a target are joined as the attribute `aggregate` says: SUM, AVERAGE (over the trees), MIN or MAX; a
// target without votes has 0. The attribute `features` is the least F that fits.
void add_tree_ops(OpRegistry& registry);

// The comparison of a node; kMissingTrue is added where NaN goes to the true child.
enum class TreeMode : int32_t { LEQ = 0, LT = 1, GTE = 2, GT = 3, EQ = 4, NEQ = 5, MEMBER = 6 };
constexpr int32_t kMissingTrue = 8;
constexpr int32_t kTreeColumns = 5;

}  // namespace deepjit
