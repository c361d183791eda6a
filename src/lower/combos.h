// Which generated kernels of a program share a launch: combos (program/combo.h), known as horizontal fusion.
//
// Stands behind tuning: only regions that have a kernel join, and only small ones, whose launch costs what their work
// does. On the CPU a run of neighbours joins, whether or not one needs another: its kernels run in order.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "program/program.h"

namespace deepjit {

// Dispatching a step takes about 15 ns, moving 64 KiB between kernels 2 us. Above, joining gains less than the
// hundredths that a profile step by step is worth.
constexpr int64_t kMostComboBytes = 64 << 10;
constexpr size_t kMostComboParts = 64;

// `bytes` holds, of every step that launches at the shapes tuned for, what it reads and writes. Returns the new steps.
// Only steps that launch nothing (views, sizes) change places: memory stays what it was.
std::vector<int32_t> join_launches(Program& program, const std::map<int32_t, int64_t>& bytes,
                                   const std::string& provider);

}  // namespace deepjit
