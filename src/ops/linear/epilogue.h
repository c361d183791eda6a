// The epilogue of a fused op: pointwise steps applied to its result, in order.
//
// An entry is text ("Relu", "Clip(0,6)", "Add($3)"); $k is the node's input k, broadcast against the
// result by NumPy's rules in the result's own layout. It never enlarges the result.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "ops/op.h"

namespace deepjit {

struct EpilogueOp {
  std::string name;  // "Relu", "Clip", "Add" ...
  float alpha = 0;   // the first number in the parentheses
  float beta = 0;    // the second
  int operand = -1;  // k of "$k"; -1 when there is none
  bool operator==(const EpilogueOp&) const = default;
};

// Throws Error(ATTRIBUTE) for text that is not an entry.
std::vector<EpilogueOp> parse_epilogue(const std::vector<std::string>& entries);
std::string to_string(const EpilogueOp& op);

// The ops of the node's "epilogue" attribute; empty when absent.
std::vector<EpilogueOp> epilogue_of(const Attributes& attrs);

// Checks that every operand exists and broadcasts to `result`. For shape rules.
void check_epilogue(const InferContext& ctx, const Shape& result);

// Applies `ops` to `result` in place. inputs[k] is the view that "$k" means. Any floating-point type;
// operands may have another floating-point type than the result (float16 operands, float result).
void apply_epilogue(std::span<const EpilogueOp> ops, std::span<const TensorView> inputs, TensorView result);
// The same with the node's own inputs.
void apply_epilogue(const EvalContext& ctx, TensorView result);

}  // namespace deepjit
