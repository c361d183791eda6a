// Joins the small kernels of a tuned program into combos (lower/combos.h) and tunes those: each is verified, and
// timed against its kernels one by one.
#pragma once

#include "compiler/shapes.h"
#include "tune/tuner.h"

namespace deepjit {

TuneReport tune_combos(Program& program, const Probe& probed, TuneOptions options, TuneReport before);

}  // namespace deepjit
