// Which steps are tuned first.
#pragma once

#include <vector>

#include "tune/tuner.h"

namespace deepjit {

// The largest steps first, so that a short budget goes where it counts; regions after the steps inside them, which they
// are measured against. On a GPU regions come first: the steps inside one that has a kernel never run.
std::vector<const TuneTask*> by_work(const std::vector<TuneTask>& tasks, bool gpu);

// Without the steps inside regions, which rarely run on a GPU.
std::vector<const TuneTask*> outside_regions(const std::vector<const TuneTask*>& order);

}  // namespace deepjit
