// What one context has the engine's thread do for it: makes graphs of its launches, beside its runs.
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "device/device.h"
#include "runtime/background.h"

namespace deepjit {

// How often launches went which way.
struct GraphCounts {
  size_t direct = 0;    // stretches of launches that were put on the stream one by one
  size_t replayed = 0;  // ... that a graph replayed
  size_t captured = 0;
  size_t instantiated = 0;  // graphs made
  size_t updated = 0;       // ... turned into others
  size_t failed = 0;        // launches that could not be captured
  bool operator==(const GraphCounts&) const = default;
};

class GraphJobs {
 public:
  explicit GraphJobs(BackgroundWorker& worker);
  ~GraphJobs();
  GraphJobs(const GraphJobs&) = delete;
  GraphJobs& operator=(const GraphJobs&) = delete;

  // `job` throws nothing.
  void post(std::function<void()> job);
  // Until none is left. Not to be called by who holds what a job waits for.
  void wait();

 private:
  BackgroundWorker& worker_;
  pid_t process_;
  std::mutex mutex_;
  std::condition_variable changed_;
  size_t left_ = 0;
};

// Graphs that serve nothing any more, kept to be turned into others: of another address of the same launches, or of
// the same launches at another shape. The latest ones.
class SpareGraphs {
 public:
  void add(size_t steps, bool tells_time, std::unique_ptr<device::Graph> graph);
  // One of as many steps; nullptr when there is none.
  std::unique_ptr<device::Graph> take(size_t steps, bool tells_time);

 private:
  static constexpr size_t kMost = 8;
  struct Spare {
    size_t steps = 0;
    bool tells_time = false;
    std::unique_ptr<device::Graph> graph;
  };
  std::vector<Spare> spares_;  // the latest comes last
};

}  // namespace deepjit
