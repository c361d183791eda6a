// Joins the small kernels of a tuned program into combos (lower/combos.h) and tunes those: each is verified and,
// on the CPU, timed against its kernels one by one.
#pragma once

#include "compiler/shapes.h"
#include "tune/tuner.h"

namespace deepjit {

// The first half: joins; returns the new steps.
std::vector<int32_t> join_combos(Program& program, const Probe& probed, const TuneOptions& options);

TuneReport tune_combos(Program& program, const Probe& probed, TuneOptions options, TuneReport before);

}  // namespace deepjit
