// What a kernel IR means, by plain loops: the oracle of the emitters' tests.
#pragma once

#include <vector>

#include "codegen/kernel_ir.h"
#include "kernels/kernel.h"

namespace deepjit {

// The outputs of a kernel whose operands have these shapes. Floats are computed in double and rounded to float after
// each instruction; reductions add in double.
std::vector<Tensor> interpret(const KernelIr& kernel, const StepShape& shape, const std::vector<Tensor>& inputs);

}  // namespace deepjit
