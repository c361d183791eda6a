// Makes pointwise kernels the prologues of the products that read them, where that is faster on the device that is here
// (lower/prologues.h). Nothing is joined where nothing is measured.
#pragma once

#include "compiler/shapes.h"
#include "tune/tuner.h"

namespace deepjit {

TuneReport tune_prologues(Program& program, const TuneOptions& options, TuneReport before);

// The program as it was before; for tuning anew.
void part_all_prologues(Program& program);

}  // namespace deepjit
