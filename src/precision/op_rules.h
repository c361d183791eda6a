// What each op is to autocast: may its values be of 16 bits, and why or why not.
//
// The table knows ops, not values: what a node's own operands say (a constant that does not fit, values seen) is
// autocast's. An op that is not in the table stays in float32.
#pragma once

#include <string>
#include <string_view>

#include "graph/graph.h"

namespace deepjit {

enum class OpPrecision {
  PRODUCT,  // convolutions and products: the reason to have 16 bits at all; sums are float32 inside
  NORM,     // norms and softmax: float32 inside, and bounded results
  PLAIN,    // works on each element, or takes means and maxima: results are as large as operands
  MOVE,     // moves values and computes nothing
  SHAPE,    // reads no values
  KEEP,     // stays in float32
};

struct OpRule {
  OpPrecision kind = OpPrecision::KEEP;
  std::string_view what = "no 16-bit form";  // "convolution"; for KEEP the reason
  bool bounded = false;                      // results fit whatever the operands are
};

const OpRule& op_rule(std::string_view op);
// The same, with what only the node's operands tell: a square, a quotient of computed values, a sum of many.
OpRule node_rule(const Node& node);

// May input i take the 16-bit type? Scales and regions of a Resize may not.
bool is_data_input(const Node& node, size_t i);

// Does it matter that constant input i falls to zero? Not for a bias, which is added to larger values; it does for an
// epsilon.
bool loss_matters(const Node& node, size_t i);

}  // namespace deepjit
