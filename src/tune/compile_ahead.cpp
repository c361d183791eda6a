#include "tune/compile_ahead.h"

#include <algorithm>
#include <atomic>
#include <thread>

namespace deepjit {

void side_by_side(size_t count, const std::function<void(size_t)>& body, const std::function<bool()>& stop) {
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i = next++; i < count && !stop(); i = next++) {
      try {
        body(i);
      } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): met again by who needs the result
      }
    }
  };
  const size_t cores = std::max(2U, std::thread::hardware_concurrency());
  std::vector<std::jthread> others;
  while (others.size() + 1 < std::min(cores, count)) others.emplace_back(work);
  work();
}

void compile_ahead(const std::vector<CompileJob>& jobs, const std::function<bool()>& stop) {
  side_by_side(
      jobs.size(), [&](size_t i) { jobs[i].offerer->compile(jobs[i].shape, jobs[i].tactic); }, stop);
}

}  // namespace deepjit
