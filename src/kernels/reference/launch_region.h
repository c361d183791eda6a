// A fused region step by step, the values between the steps in memory of the kernel's own. A generated kernel is
// verified against the steps' references, and timed against the steps by their own tactics.
#pragma once

#include "kernels/kernel.h"

namespace deepjit {

// The variants of the reference's tactic for a region: its steps by their own tactics, and its steps with every value
// moved by a few units in the last place (launch_sway.h), differently for each number behind the word.
constexpr const char* kStepByStep = "steps";
constexpr const char* kSwaying = "swaying ";

std::unique_ptr<Kernel> make_region_kernel(const StepShape& region, const Tactic& tactic);

}  // namespace deepjit
