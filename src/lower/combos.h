// Which generated kernels of a program share a launch: combos (program/combo.h), known as horizontal fusion.
//
// Stands behind tuning: only regions that have a kernel join, and only small ones, whose launch costs what their work
// does. On the CPU a run of neighbours joins, whether or not one needs another: its kernels run in order. On a GPU the
// kernels of a launch run at the same time: those join that do not need each other, and each as early as it can.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "program/program.h"

namespace deepjit {

struct JoinRules {
  std::string provider;                               // of the regions' kernels
  int64_t most_bytes = 0;                             // that a kernel reads and writes
  size_t most_parts = 0;                              // of a launch
  bool in_order = true;                               // one may need another
  std::function<bool(const Step&, const Step&)> fit;  // may the two share a launch? Always, when empty
};

// `bytes` holds, of every step that launches at the shapes tuned for, what it reads and writes. Returns the new steps.
// In order, only steps that launch nothing (views, sizes) change places: memory stays what it was.
std::vector<int32_t> join_launches(Program& program, const std::map<int32_t, int64_t>& bytes, const JoinRules& rules);

// Undoes it: combos are gone, their parts where they were.
// Throws ENGINE_RANGE when the ledger names a combo, which none does that lowering or tuning made.
void part_launches(Program& program);

}  // namespace deepjit
