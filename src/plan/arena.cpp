#include "plan/arena.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>

namespace deepjit {

namespace {

constexpr size_t kAlign = 64;

size_t aligned(size_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

size_t live_maximum(const std::vector<Lifetime>& lifetimes) {
  std::map<int, std::pair<size_t, size_t>> events;  // step -> bytes that start, bytes that ended before
  for (const Lifetime& l : lifetimes) {
    events[l.first].first += aligned(l.bytes);
    events[l.last + 1].second += aligned(l.bytes);
  }
  size_t live = 0;
  size_t most = 0;
  for (const auto& [step, change] : events) {
    live = live - change.second + change.first;
    most = std::max(most, live);
  }
  return most;
}

}  // namespace

ArenaLayout plan_arena(const std::vector<Lifetime>& lifetimes) {
  ArenaLayout layout;
  layout.offsets.resize(lifetimes.size());
  layout.lower_bound = live_maximum(lifetimes);
  std::vector<size_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return lifetimes[a].bytes > lifetimes[b].bytes; });
  std::vector<size_t> placed;  // by offset
  for (size_t index : order) {
    const Lifetime& current = lifetimes[index];
    const size_t bytes = aligned(current.bytes);
    size_t end = 0;  // end of the occupied space seen so far
    size_t best_offset = 0;
    size_t best_gap = SIZE_MAX;
    for (size_t other : placed) {
      const Lifetime& o = lifetimes[other];
      if (o.last < current.first || o.first > current.last) continue;
      const size_t start = layout.offsets[other];
      if (start >= end + bytes && start - end < best_gap) {
        best_gap = start - end;
        best_offset = end;
      }
      end = std::max(end, start + aligned(o.bytes));
    }
    layout.offsets[index] = best_gap == SIZE_MAX ? end : best_offset;
    layout.bytes = std::max(layout.bytes, layout.offsets[index] + bytes);
    placed.insert(std::upper_bound(placed.begin(), placed.end(), index,
                                   [&](size_t a, size_t b) { return layout.offsets[a] < layout.offsets[b]; }),
                  index);
  }
  return layout;
}

}  // namespace deepjit
