// What the tuner does on all cores, before it measures one after another: asking providers, and compiling.
#pragma once

#include <functional>
#include <vector>

#include "kernels/kernel.h"

namespace deepjit {

// Calls body(0) to body(count - 1) on all cores, in about that order; ends early when `stop` says so. What a body
// throws is lost: whoever needs its result meets the failure again and tells.
void side_by_side(size_t count, const std::function<void(size_t)>& body, const std::function<bool()>& stop);

struct CompileJob {
  const Offerer* offerer = nullptr;
  StepShape shape;  // with the cache that the code goes to, and one architecture
  Tactic tactic;
};

// Compiles the kernels and plans of a build. A job that fails is left to pack(), which tells why.
void compile_ahead(const std::vector<CompileJob>& jobs, const std::function<bool()>& stop);

}  // namespace deepjit
