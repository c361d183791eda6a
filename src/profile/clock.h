// Short times on the CPU: the processor's time stamp where it is steady, else the system's clock.
#pragma once

#include <x86intrin.h>

#include <chrono>
#include <cstdint>

namespace deepjit::profile {

// Whether the processor's time stamp counts evenly, whatever its frequency and sleep.
bool has_steady_stamps();

// Ticks, ordered after all that came before.
inline uint64_t stamp(bool by_processor) {
  if (!by_processor) {
    return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1));
  }
  _mm_lfence();
  const uint64_t ticks = __rdtsc();
  _mm_lfence();
  return ticks;
}

// What a tick is, learnt against the system's clock between construction and ticks_per_us().
class Ticks {
 public:
  explicit Ticks(bool by_processor);
  double per_us() const;

 private:
  bool by_processor_;
  uint64_t first_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace deepjit::profile
