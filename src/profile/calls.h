// What each step of a run does: how often it is called, at which shapes, and how much work that is.
#pragma once

#include <vector>

#include "profile/records.h"
#include "profile/work.h"
#include "runtime/observer.h"

namespace deepjit::profile {

// Watches one run; its own cost does not matter.
class Calls final : public Observer {
 public:
  explicit Calls(const Program& program);
  void end_step(const Binding& binding, const BoundStep& bound) override;

  // One a step of the program that can be launched by itself, then one for copies: everything but the times.
  std::vector<StepRecord> records() const;
  size_t launches() const { return launches_; }

 private:
  const Program& program_;
  std::vector<StepRecord> records_;
  size_t launches_ = 0;
};

// Whether most of its time should go by arithmetic: matrix products, convolutions and the like, or a region with one.
bool counts_by_arithmetic(const Program& program, const Step& step);

}  // namespace deepjit::profile
