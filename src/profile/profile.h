// Profiles an engine: runs it on given inputs, and says which step takes how long and why.
//
// Runs are made by a context of its own. On the CPU, and on a device without CUPTI, runs with and without profiling
// take turns; CUPTI changes every run after it is switched on, and so the runs without it come first. `contexts` beyond
// one run the same inputs in threads of their own meanwhile; only the first is profiled.
#pragma once

#include <memory>
#include <span>

#include "profile/records.h"
#include "runtime/engine.h"

namespace deepjit::profile {

struct Options {
  int iterations = 0;    // profiled runs; 0: as many as fit into `seconds`, at least five
  double seconds = 2;    // for runs with and without profiling
  double warm_up_s = 1;  // at least; longer while the times still change, up to three times as long
  int contexts = 1;
  int threads = 0;  // of each context; 0: the engine's
};

// Throws ARGUMENT for options out of range, before there is an engine.
void check(const Options& options);

// Throws ARGUMENT for options out of range, and what a run throws.
Profile profile(std::shared_ptr<const Engine> engine, std::span<const TensorView> inputs, const Options& options);

// Up to how many runs one may ask for: each keeps the times of all steps.
constexpr int kMostIterations = 100'000;

}  // namespace deepjit::profile
