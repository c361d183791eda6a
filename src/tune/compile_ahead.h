// Compiles the generated kernels of a build side by side, before they are measured one after another.
#pragma once

#include <functional>
#include <vector>

#include "kernels/kernel.h"

namespace deepjit {

struct CompileJob {
  const Offerer* offerer = nullptr;
  StepShape shape;  // with the cache that the code goes to, and one architecture
  Tactic tactic;
};

// On all cores; ends early when `stop` says so. A job that fails is left to pack(), which tells why.
void compile_ahead(const std::vector<CompileJob>& jobs, const std::function<bool()>& stop);

}  // namespace deepjit
