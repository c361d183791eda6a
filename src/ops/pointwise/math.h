// The parts of the math family, one file each; add_math_ops calls them all.
#pragma once

#include "ops/op.h"

namespace deepjit {

void add_binary_math_ops(OpRegistry& registry);    // math_binary.cpp: Add Sub Mul Div Mod Pow BitShift
void add_logic_ops(OpRegistry& registry);          // math_logic.cpp: comparison, And Or Xor Not, Bitwise*
void add_unary_math_ops(OpRegistry& registry);     // math_unary.cpp
void add_variadic_math_ops(OpRegistry& registry);  // math_variadic.cpp: Max Min Sum Mean

// Output 0 is inputs 0 and 1 broadcast, of type `dtype`.
void infer_broadcast_pair(InferContext& ctx, DType dtype);

}  // namespace deepjit
