// What a build wrote into its program's metadata, as far as providers go by it. A step without a program has no notes.
#pragma once

#include "kernels/kernel.h"

namespace deepjit {

// Is the build for the device that computes nothing?
bool is_for_null_device(const StepShape& shape);

}  // namespace deepjit
