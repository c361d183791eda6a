#include "base/cpu.h"

#include <cpuid.h>

namespace deepjit {

namespace {

// Not every compiler's builtin knows this name.
bool has_f16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}

bool has_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c(); }

bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
}

}  // namespace

const std::string& cpu_isa() {
  static const std::string isa = has_avx512() ? "avx512" : has_avx2() ? "avx2" : "x86-64";
  return isa;
}

bool cpu_runs(const std::string& isa) {
  if (isa == "avx512") return cpu_isa() == "avx512";
  if (isa == "avx2") return cpu_isa() != "x86-64";
  return isa == "x86-64";
}

}  // namespace deepjit
