// How many floating-point operations an op does, by its shapes: two for each product of a contraction (matrix product,
// convolution, attention, recurrent cell), one an element and operator for elementwise work, one an input element for a
// reduction, a few for softmax and norms, none for moving data.
#pragma once

#include <string>
#include <vector>

#include "base/attributes.h"
#include "base/tensor.h"

namespace deepjit {

// Omitted operands have dtype UNDEFINED. A region has none of its own.
double flops_of(const std::string& op, const Attributes& attrs, const std::vector<TensorDesc>& inputs,
                const std::vector<TensorDesc>& outputs);

// Does the op read of its first operand only what it gives on?
bool reads_a_part(const std::string& op);

}  // namespace deepjit
