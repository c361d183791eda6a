// A fused region step by step, the values between the steps in memory of the kernel's own. A generated kernel is
// verified against the steps' references, and timed against the steps by their own tactics.
#pragma once

#include "kernels/kernel.h"

namespace deepjit {

std::unique_ptr<Kernel> make_region_kernel(const StepShape& region, bool own_tactics);

// The variant of the reference's tactic that runs a region by its steps' own tactics.
constexpr const char* kStepByStep = "steps";

}  // namespace deepjit
