#include "tune/compile_ahead.h"

#include <algorithm>
#include <atomic>
#include <thread>

namespace deepjit {

void compile_ahead(const std::vector<CompileJob>& jobs, const std::function<bool()>& stop) {
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i = next++; i < jobs.size() && !stop(); i = next++) {
      try {
        jobs[i].offerer->compile(jobs[i].shape, jobs[i].tactic);
      } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): pack() meets it again and tells
      }
    }
  };
  const size_t cores = std::max(2U, std::thread::hardware_concurrency());
  std::vector<std::jthread> others;
  while (others.size() + 1 < std::min(cores, jobs.size())) others.emplace_back(work);
  work();
}

}  // namespace deepjit
