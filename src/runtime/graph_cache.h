// The graphs of one binding's launches, by the addresses that these use, and which are worth to be made.
//
// A caller's buffers often alternate between a few sets: the first sets get a graph each. When there are more, one that
// comes again takes the place of the graph that was used least recently, unless that has served within the last runs:
// sets that never come again, or too many in turn, must not drive out what serves.
#pragma once

#include <algorithm>
#include <cstdint>
#include <list>
#include <memory>
#include <vector>

#include "device/device.h"

namespace deepjit {

struct GraphKey {
  std::vector<void*> addresses;
  bool tells_time = false;  // the time of its launches
  bool operator==(const GraphKey&) const = default;
};

class GraphCache {
 public:
  // The graph of these launches; nullptr when there is none. Each run asks once.
  device::Graph* find(const GraphKey& key) {
    ++runs_;
    for (auto it = entries_.begin(); it != entries_.end(); ++it) {
      if (!(it->key == key)) continue;
      entries_.splice(entries_.begin(), entries_, it);
      it->used = runs_;
      return it->graph.get();
    }
    return nullptr;
  }
  // Is one to be made for launches that have none? Then it is under way, up to keep() or give_up().
  bool wants(const GraphKey& key) {
    if (!worth_it_ || std::find(under_way_.begin(), under_way_.end(), key) != under_way_.end()) return false;
    if (entries_.size() + under_way_.size() >= kMost) {
      if (!comes_again(key) || !under_way_.empty() || entries_.back().used + kRecent > runs_) return false;
    }
    under_way_.push_back(key);
    return true;
  }
  // A graph that may be turned into another: nullptr while there is room for a new one.
  std::unique_ptr<device::Graph> take_oldest() {
    if (entries_.size() < kMost) return nullptr;
    auto graph = std::move(entries_.back().graph);
    entries_.pop_back();
    return graph;
  }
  void keep(const GraphKey& key, std::unique_ptr<device::Graph> graph) {
    std::erase(under_way_, key);
    entries_.push_front({key, std::move(graph), runs_});
  }
  void give_up(const GraphKey& key) { std::erase(under_way_, key); }
  // These launches cannot be captured.
  void give_up_for_good() { worth_it_ = false; }

  // All graphs, which fit no more; those that are being made are not kept.
  std::vector<std::pair<GraphKey, std::unique_ptr<device::Graph>>> take_all() {
    std::vector<std::pair<GraphKey, std::unique_ptr<device::Graph>>> all;
    for (Entry& entry : entries_) all.emplace_back(std::move(entry.key), std::move(entry.graph));
    entries_.clear();
    seen_.clear();
    return all;
  }

 private:
  static constexpr size_t kMost = 4;
  static constexpr size_t kSeen = 8;
  static constexpr uint64_t kRecent = 16;  // runs

  bool comes_again(const GraphKey& key) {
    const auto found = std::find(seen_.begin(), seen_.end(), key);
    const bool again = found != seen_.end();
    if (again) seen_.erase(found);
    seen_.push_front(key);
    if (seen_.size() > kSeen) seen_.pop_back();
    return again;
  }

  struct Entry {
    GraphKey key;
    std::unique_ptr<device::Graph> graph;
    uint64_t used = 0;
  };
  std::list<Entry> entries_;  // the one used last comes first
  std::vector<GraphKey> under_way_;
  std::list<GraphKey> seen_;  // without a graph, the latest first
  uint64_t runs_ = 0;
  bool worth_it_ = true;
};

}  // namespace deepjit
