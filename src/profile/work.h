// How much a step does: bytes and floating-point operations, from its shapes.
//
// Bytes are those of its inputs and outputs, constants too, each once; of a table that it only picks from, as many as
// it picks. Operations: two for each product of a contraction (matrix product, convolution, attention, recurrent cell),
// one an element and operator for elementwise work, one an input element for a reduction, a few for softmax and norms,
// none for moving data. A region does what its steps do, and touches what enters and leaves it.
#pragma once

#include "runtime/binding.h"

namespace deepjit::profile {

struct Work {
  double bytes = 0;
  double flops = 0;
};

// Of a step that has just run, or whose shapes are fixed.
Work work_of(const Program& program, const Binding& binding, const BoundStep& bound);

// Of one op at these shapes; omitted operands have dtype UNDEFINED.
double flops_of(const Step& step, const std::vector<TensorDesc>& inputs, const std::vector<TensorDesc>& outputs);

}  // namespace deepjit::profile
