#include "profile/clock.h"

#include <cpuid.h>

#include <thread>

namespace deepjit::profile {

bool has_steady_stamps() {
  constexpr unsigned kPowerManagement = 0x80000007, kInvariant = 1u << 8;
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(kPowerManagement, &a, &b, &c, &d) != 0 && (d & kInvariant) != 0;
}

Ticks::Ticks(bool by_processor)
    : by_processor_(by_processor), first_(stamp(by_processor)), start_(std::chrono::steady_clock::now()) {}

double Ticks::per_us() const {
  if (!by_processor_) return 1000;
  constexpr auto kEnough = std::chrono::milliseconds(20);
  const auto passed = std::chrono::steady_clock::now() - start_;
  if (passed < kEnough) std::this_thread::sleep_for(kEnough - passed);
  const uint64_t last = stamp(by_processor_);
  const double us = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start_).count();
  return static_cast<double>(last - first_) / us;
}

}  // namespace deepjit::profile
