// The graphs of one binding, by the addresses that its launches use.
//
// A caller's buffers often alternate between a few sets, so that a handful of graphs serves without another capture.
// When there are more sets, the one that was used least recently is updated.
#pragma once

#include <list>
#include <memory>
#include <vector>

#include "device/device.h"

namespace deepjit {

class GraphCache {
 public:
  // A graph that was captured for these addresses, and that tells the time of its launches or not; nullptr when there
  // is none.
  device::Graph* find(const std::vector<void*>& addresses, bool tells_time) {
    for (auto it = entries_.begin(); it != entries_.end(); ++it) {
      if (it->tells_time != tells_time || it->addresses != addresses) continue;
      entries_.splice(entries_.begin(), entries_, it);
      return it->graph.get();
    }
    return nullptr;
  }
  // One that may be turned into another: nullptr while there is room for a new one.
  std::unique_ptr<device::Graph> take_oldest() {
    if (entries_.size() < kMost) return nullptr;
    auto graph = std::move(entries_.back().graph);
    entries_.pop_back();
    return graph;
  }
  device::Graph* keep(const std::vector<void*>& addresses, bool tells_time, std::unique_ptr<device::Graph> graph) {
    entries_.push_front({addresses, tells_time, std::move(graph)});
    return entries_.front().graph.get();
  }
  // The one that was launched last; nullptr when there is none, or when it tells no time.
  const device::Graph* latest_that_tells_time() const {
    return entries_.empty() || !entries_.front().tells_time ? nullptr : entries_.front().graph.get();
  }
  void clear() { entries_.clear(); }

 private:
  static constexpr size_t kMost = 4;
  struct Entry {
    std::vector<void*> addresses;
    bool tells_time = false;
    std::unique_ptr<device::Graph> graph;
  };
  std::list<Entry> entries_;  // the one used last comes first
};

}  // namespace deepjit
