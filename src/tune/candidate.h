// A tactic under measurement, and which of several is taken.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/kernel.h"
#include "tune/measure.h"

namespace deepjit {

// "provider:variant", as in lockfiles.
std::string tactic_name(const Tactic& tactic);

struct Candidate {
  Tactic tactic;
  std::unique_ptr<Kernel> kernel;
  double error = 0;
  Timing timing;
};

// The forced one; else the fastest, and among those that the noise cannot tell apart the smallest name. There is one.
const Candidate& pick(const std::vector<Candidate>& candidates, const std::string& forced);

}  // namespace deepjit
