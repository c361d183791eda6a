// The instruction sets that generated code is made for.
#pragma once

#include <string>

namespace deepjit {

// The best one that this machine has: "avx512" (F, VL, BW, DQ), "avx2" (with FMA and F16C) or "x86-64".
const std::string& cpu_isa();
// Can this machine run code made for `isa`? False for names that are none.
bool cpu_runs(const std::string& isa);

}  // namespace deepjit
