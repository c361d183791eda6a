// Runs an op's reference implementation on host tensors: how passes fold constants.
#pragma once

#include <vector>

#include "ops/op.h"

namespace deepjit {

// The outputs of `def` for `inputs` (undefined tensors are omitted inputs). wanted[i] false: output i is
// omitted and comes back undefined. Throws what the reference throws, and LIMIT when an output takes more than
// `max_bytes`.
std::vector<Tensor> evaluate_op(const OpDef& def, const Attributes& attrs, const std::vector<Tensor>& inputs,
                                const std::vector<bool>& wanted, int64_t max_bytes = INT64_MAX);

}  // namespace deepjit
