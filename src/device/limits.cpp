#include "device/limits.h"

#include <algorithm>

namespace deepjit::device {

double copy_gb_s(Device& device, size_t bytes, int in_a_row) {
  constexpr int kRounds = 4;
  Memory from(device, Memory::Kind::DEVICE);
  Memory to(device, Memory::Kind::DEVICE);
  const auto stream = device.make_stream();
  const auto before = device.make_event();
  const auto after = device.make_event();
  stream->fill(from.ensure(bytes), 1, bytes);
  to.ensure(bytes);
  double best = 0;
  for (int round = 0; round < kRounds && bytes > 0; ++round) {
    stream->record(*before);
    for (int i = 0; i < in_a_row; ++i) stream->copy(to.data(), from.data(), bytes);
    stream->record(*after);
    stream->synchronize();
    const double us = device.elapsed_us(*before, *after);
    if (us > 0) best = std::max(best, in_a_row * 2.0 * static_cast<double>(bytes) / us / 1e3);
  }
  return best;
}

namespace {

// Operations that a processor does a clock: float32 in its lanes, 16-bit floats in its tensor cores.
struct PerClock {
  int architecture;  // and newer ones up to the next line
  double float32, tensor;
};
constexpr PerClock kPerClock[] = {
    {80, 128, 2048}, {86, 256, 1024}, {90, 256, 4096}, {100, 256, 8192}, {120, 256, 1024}};
constexpr double kL2BytesPerClock = 64;  // of a processor

}  // namespace

Peaks peaks_of(const Info& info) {
  Peaks peaks;
  // Memory moves two words a clock.
  peaks.memory_gb_s = 2.0 * info.memory_clock_khz * info.memory_bus_bits / 8 / 1e6;
  const double clocks = static_cast<double>(info.processors) * info.clock_khz / 1e6;  // of all processors, in GHz
  if (info.kind != "cuda") return peaks;
  peaks.l2_gb_s = kL2BytesPerClock * clocks;
  for (const PerClock& line : kPerClock) {
    if (info.architecture < line.architecture) break;
    peaks.gflop_s = line.float32 * clocks;
    peaks.tensor_gflop_s = line.tensor * clocks;
  }
  return peaks;
}

}  // namespace deepjit::device
