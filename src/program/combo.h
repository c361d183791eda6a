// Several kernels in one launch ("combo", horizontal fusion): a region step whose block holds regions, and views
// between them, instead of plain steps. All that its regions write are its outputs.
#pragma once

#include <algorithm>

#include "program/program.h"

namespace deepjit {

inline bool is_combo(const Program& program, const Step& step) {
  if (step.op != kRegionOp) return false;
  const std::vector<int32_t>& inside = program.blocks[static_cast<size_t>(step.blocks[0])].steps;
  return std::any_of(inside.begin(), inside.end(),
                     [&](int32_t s) { return program.steps[static_cast<size_t>(s)].op == kRegionOp; });
}

}  // namespace deepjit
