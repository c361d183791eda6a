// Kernels are generated side by side before they are measured.
#include "tune/compile_ahead.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>

#include "base/error.h"

namespace deepjit {
namespace {

// Each job waits until another one is under way, ten seconds at most.
class PatientOfferer final : public Offerer {
 public:
  std::string name() const override { return "patient"; }
  Offer offer(const StepShape&) const override { return {}; }
  void pack(const StepShape&, Tactic&) const override {}
  void compile(const StepShape&, const Tactic& tactic) const override {
    std::unique_lock<std::mutex> lock(mutex);
    ++begun;
    changed.notify_all();
    if (tactic.variant == "bad") throw Error(Code::INTERNAL, "does not compile");
    if (tactic.variant == "pair") {
      met = met && changed.wait_for(lock, std::chrono::seconds(10), [this] { return begun >= 2; });
    }
  }

  mutable std::mutex mutex;
  mutable std::condition_variable changed;
  mutable int begun = 0;
  mutable bool met = true;
};

std::vector<CompileJob> jobs_of(const Offerer& offerer, const std::vector<std::string>& variants) {
  std::vector<CompileJob> jobs;
  for (const std::string& variant : variants) {
    Tactic tactic;
    tactic.variant = variant;
    jobs.push_back({&offerer, {}, tactic});
  }
  return jobs;
}

TEST(CompileAhead, TwoAtATimeAtLeast) {
  const PatientOfferer offerer;
  compile_ahead(jobs_of(offerer, {"pair", "pair"}), [] { return false; });
  EXPECT_TRUE(offerer.met);
  EXPECT_EQ(offerer.begun, 2);
}

TEST(CompileAhead, AFailedJobDoesNotStopTheOthers) {
  const PatientOfferer offerer;
  compile_ahead(jobs_of(offerer, {"bad", "good", "bad", "good", "good"}), [] { return false; });
  EXPECT_EQ(offerer.begun, 5);
}

TEST(CompileAhead, EndsWhenTheBudgetDoes) {
  const PatientOfferer offerer;
  compile_ahead(jobs_of(offerer, {"good", "good"}), [] { return true; });
  compile_ahead({}, [] { return false; });
  EXPECT_EQ(offerer.begun, 0);
}

}  // namespace
}  // namespace deepjit
