#include "profile/limits.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <mutex>

#include "device/limits.h"
#include "profile/fma.h"

namespace deepjit::profile {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_of(Clock::duration d) { return std::chrono::duration<double>(d).count(); }

// Runs work(thread) on all threads; the best seconds of some rounds. `next` is called between them.
template <typename F, typename G>
double best_seconds(int threads, int rounds, F&& work, G&& next) {
  double best = 1e30;
  for (int round = 0; round < rounds; ++round) {
    const auto start = Clock::now();
#pragma omp parallel num_threads(threads)
    {
#pragma omp for schedule(static, 1)
      for (int t = 0; t < threads; ++t) work(t);
    }
    best = std::min(best, seconds_of(Clock::now() - start));
    next();
  }
  return best;
}

// Each thread copies one half of a block of its own to the other, over and over. Rounds are short, so that some of them
// run undisturbed; of a block that no cache holds, each copies another part.
Limits::Copy copy_limit(int threads, size_t bytes_per_thread) {
  constexpr size_t kMoved = size_t{12} << 20;  // by a thread in a round, read and written
  constexpr int kRounds = 16;
  const size_t half = bytes_per_thread / 2;
  std::vector<std::vector<char>> blocks(static_cast<size_t>(threads), std::vector<char>(2 * half, 1));
  const size_t part = std::min(half, kMoved / 2);
  const int repeats = static_cast<int>(std::max<size_t>(1, kMoved / (2 * part)));
  size_t offset = 0;
  const double s = best_seconds(
      threads, kRounds,
      [&](int t) {
        char* block = blocks[static_cast<size_t>(t)].data() + offset;
        for (int i = 0; i < repeats; ++i) {
          std::memcpy(block + half, block, part);
          asm volatile("" : : "r"(block) : "memory");
        }
      },
      [&] { offset = offset + 2 * part <= half ? offset + part : 0; });
  const double moved = static_cast<double>(threads) * static_cast<double>(repeats) * 2.0 * static_cast<double>(part);
  return {static_cast<double>(threads) * static_cast<double>(2 * half), moved / s / 1e9};
}

Limits measure_cpu(int threads) {
  Limits limits;
  for (size_t bytes : {size_t{24} << 10, size_t{384} << 10, size_t{4} << 20, size_t{96} << 20}) {
    const size_t each =
        bytes > (size_t{1} << 20) ? std::max<size_t>(bytes / static_cast<size_t>(threads), 1 << 20) : bytes;
    limits.copies.push_back(copy_limit(threads, each));
  }
  std::sort(limits.copies.begin(), limits.copies.end(), [](const auto& a, const auto& b) { return a.bytes < b.bytes; });
  constexpr int kRounds = 100'000;
  std::vector<float> sink(static_cast<size_t>(threads) * 64);
  double flops = 0;
  const auto work = [&](int t) {
    const double done = run_fma(kRounds, &sink[static_cast<size_t>(t) * 64]);
    if (t == 0) flops = done * threads;
  };
  const double s = best_seconds(threads, 10, work, [] {});
  limits.gflop_s = flops / s / 1e9;
  return limits;
}

}  // namespace

const Limits& cpu_limits(int threads) {
  static std::mutex mutex;
  static std::map<int, Limits> measured;
  const std::lock_guard<std::mutex> lock(mutex);
  auto found = measured.find(threads);
  if (found == measured.end()) found = measured.emplace(threads, measure_cpu(threads)).first;
  return found->second;
}

Limits device_limits(device::Device& device) {
  const size_t most = device.info().kind == "cuda" ? size_t{512} << 20 : size_t{8} << 20;
  const size_t largest = std::min(most, device.free_bytes() / 4);
  Limits limits;
  for (const size_t bytes : {largest / 64, largest}) {
    const double rate = device::copy_gb_s(device, bytes, 8);
    if (rate > 0) limits.copies.push_back({2.0 * static_cast<double>(bytes), rate});
  }
  return limits;
}

void rate(StepRecord& record, const Limits& limits, bool arithmetic_counts) {
  const double us = record.times.typical;
  if (us <= 0) return;
  record.gb_s = record.bytes / us / 1e3;
  record.gflop_s = record.flops / us / 1e3;
  if (record.calls <= 0) return;
  // What copies of as much or more reached: smaller ones may have come from a cache that this step's data do not fit.
  const double each = record.bytes / record.calls;
  double bytes_limit = 0;
  for (size_t i = 0; i < limits.copies.size(); ++i) {
    const bool largest = i + 1 == limits.copies.size();
    if (limits.copies[i].bytes >= each || largest) bytes_limit = std::max(bytes_limit, limits.copies[i].gb_s);
  }
  const double by_bytes = bytes_limit > 0 ? record.gb_s / bytes_limit : 0;
  const double by_flops = limits.gflop_s > 0 ? record.gflop_s / limits.gflop_s : 0;
  if (limits.gflop_s == 0 && arithmetic_counts) return;
  if (std::max(by_bytes, by_flops) <= 0) return;
  record.of_roofline = std::max(by_bytes, by_flops);
  record.bound = by_bytes >= by_flops ? "memory" : "compute";
}

}  // namespace deepjit::profile
