// A fused region step by step: each step by its own tactic, the values between them in memory of the kernel's own. It
// is what a generated kernel is verified and timed against.
#pragma once

#include "kernels/kernel.h"

namespace deepjit {

std::unique_ptr<Kernel> make_region_kernel(const StepShape& region);

}  // namespace deepjit
