// Shares a run's wall time out: every moment belongs to one step or one other part.
#pragma once

#include <vector>

#include "profile/method.h"
#include "profile/records.h"

namespace deepjit::profile {

struct Shares {
  double steps = 0;
  double copy_in = 0, copy_out = 0;
  double gaps = 0;       // between steps
  double host = 0;       // before the first and after the last
  double profiling = 0;  // what the observer took
  double sum() const { return steps + copy_in + copy_out + gaps + host + profiling; }
};

// The parts add up to timeline.wall_us. `of_step` gets what each step of the program takes, without the spans inside
// its own; the last entry is for step -1. `cost` is in the timeline's unit.
Shares attribute(const Timeline& timeline, const Cost& cost, std::vector<double>& of_step);

}  // namespace deepjit::profile
