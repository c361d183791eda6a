#include "tune/task_order.h"

#include <algorithm>
#include <set>
#include <utility>

namespace deepjit {

std::vector<const TuneTask*> by_work(const std::vector<TuneTask>& tasks, bool gpu) {
  std::vector<std::pair<double, const TuneTask*>> order;
  for (const TuneTask& task : tasks) {
    double work = 1;
    for (const TensorDesc& d : task.inputs) {
      if (d.dtype != DType::UNDEFINED) work *= static_cast<double>(std::max<int64_t>(d.count(), 1));
    }
    order.emplace_back(work, &task);
  }
  std::stable_sort(order.begin(), order.end(), [&](const auto& a, const auto& b) {
    const bool region = !a.second->body.empty();
    if (region != !b.second->body.empty()) return region == gpu;
    return a.first > b.first;
  });
  std::vector<const TuneTask*> out;
  for (const auto& [work, task] : order) out.push_back(task);
  return out;
}

std::vector<const TuneTask*> outside_regions(const std::vector<const TuneTask*>& order) {
  std::set<int32_t> inside;
  for (const TuneTask* task : order) {
    for (const TuneTask& inner : task->body) inside.insert(inner.step);
  }
  std::vector<const TuneTask*> out;
  std::copy_if(order.begin(), order.end(), std::back_inserter(out),
               [&](const TuneTask* task) { return inside.count(task->step) == 0; });
  return out;
}

}  // namespace deepjit
