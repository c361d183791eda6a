#include "runtime/graph_jobs.h"

#include <unistd.h>

#include <algorithm>

namespace deepjit {

GraphJobs::GraphJobs(BackgroundWorker& worker) : worker_(worker), process_(getpid()) {}

GraphJobs::~GraphJobs() { wait(); }

void GraphJobs::post(std::function<void()> job) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++left_;
  }
  worker_.post([this, job = std::move(job)] {
    job();
    const std::lock_guard<std::mutex> lock(mutex_);
    if (--left_ == 0) changed_.notify_all();  // under the lock: who waits may destroy this
  });
}

void GraphJobs::wait() {
  if (process_ != getpid()) return;  // the thread is not in a forked child
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return left_ == 0; });
}

void SpareGraphs::add(size_t steps, bool tells_time, std::unique_ptr<device::Graph> graph) {
  if (spares_.size() >= kMost) spares_.erase(spares_.begin());
  spares_.push_back({steps, tells_time, std::move(graph)});
}

std::unique_ptr<device::Graph> SpareGraphs::take(size_t steps, bool tells_time) {
  const auto found = std::find_if(spares_.rbegin(), spares_.rend(), [&](const Spare& spare) {
    return spare.steps == steps && spare.tells_time == tells_time;
  });
  if (found == spares_.rend()) return nullptr;
  auto graph = std::move(found->graph);
  spares_.erase(std::next(found).base());
  return graph;
}

}  // namespace deepjit
