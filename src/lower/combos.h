// Which generated kernels of a program share a launch: combos (program/combo.h), known as horizontal fusion.
//
// Stands behind tuning: only regions that have a kernel join, and only small ones, whose launch costs what their work
// does. On the host a run of neighbours joins, whether or not one needs another: its kernels run in order. On a device
// only kernels that need nothing of each other join, since they run at once.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "program/program.h"

namespace deepjit {

struct ComboRules {
  std::string provider;    // of the kernels that join
  bool dependent = true;   // may one read what another writes?
  int64_t most_bytes = 0;  // that a kernel reads and writes at the shapes tuned for
  size_t most_parts = 64;
  size_t most_operands = 480;
};

// The host: dispatching a step takes about 50 ns, moving 64 KiB between kernels 2 us. Above, joining gains less than
// the hundredths that a profile step by step is worth.
ComboRules host_combo_rules();
// A GPU: a launch takes 1.5 to 3 us, in which even a small one moves a MiB. Arguments of a kernel are at most 4 KiB.
ComboRules device_combo_rules();

// `bytes` holds, of every step that launches at the shapes tuned for, what it reads and writes. Returns the new steps.
//
// Steps change places only where that costs no launch (views, sizes), or, on a device, where small kernels run earlier
// than they must: memory grows by what those write, most_bytes a kernel at the most, and only as far as kWindow
// launches.
std::vector<int32_t> join_launches(Program& program, const std::map<int32_t, int64_t>& bytes, const ComboRules& rules);

}  // namespace deepjit
