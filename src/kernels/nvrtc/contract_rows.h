// Parts of contract_problem().
#pragma once

#include "kernels/nvrtc/contract_problem.h"

namespace deepjit::nvrtc_gpu {

// How an operand of these dims lies over rows of columns, the last of which `result` ends in. False when it does not.
bool describe_rows(const Dims& operand, const Dims& result, EpilogueSource& source);

// Of a region whose last step is a contraction.
ContractProblem product_of_region(const StepShape& region);

}  // namespace deepjit::nvrtc_gpu
