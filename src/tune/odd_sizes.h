// A region at sizes that end in the middle of a vector.
#pragma once

#include <optional>

#include "tune/tuner.h"

namespace deepjit {

// The task with every symbolic dim at a small odd size of its own; nothing when all sizes are fixed or data decides
// one.
std::optional<TuneTask> at_odd_sizes(const Program& program, const TuneTask& task);

}  // namespace deepjit
