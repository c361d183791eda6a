// How much a step does: bytes and floating-point operations, from its shapes.
//
// Bytes are those of its inputs and outputs, constants too, each once; of a table that it only picks from, as many as
// it picks. Operations are those of ops/work.h. A region does what its steps do, and touches what enters and leaves it.
#pragma once

#include "runtime/binding.h"

namespace deepjit::profile {

struct Work {
  double bytes = 0;
  double flops = 0;
};

// Of a step that has just run, or whose shapes are fixed.
Work work_of(const Program& program, const Binding& binding, const BoundStep& bound);

}  // namespace deepjit::profile
