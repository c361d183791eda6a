// What a user op is tested on: operands that lie alike, operands that broadcast, sizes that leave tails, and values
// that are random, special or extreme. The same on every machine.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "base/tensor.h"
#include "import/user_ops/definition.h"

namespace deepjit {

// The dims of each input, as names or numbers: first as they usually lie, then with the others broadcast to one of
// them.
std::vector<UserOpDims> user_op_layouts(const UserOp& op);

// The shapes of the operands of a layout, a list for each run.
std::vector<std::vector<Dims>> user_op_sizes(const UserOpDims& layout);

enum class OpValues {
  PLAIN,
  SPECIAL,  // ties, zeros of both signs, subnormals, NaN and infinities
  EXTREME,  // the same with large values for NaN and infinities
};

// `rows`: no more than one odd value in a few rows, and none whose sum overflows.
Tensor user_op_values(DType dtype, const Dims& dims, OpValues kind, bool rows, std::mt19937_64& random);

}  // namespace deepjit
