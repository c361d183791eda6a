// Is a candidate kernel right? It must agree with the reference on random data, on special values, and, for a region,
// at sizes that end in the middle of a vector. A region's values of 16 bits are rounded where it stores them and by the
// model's own Casts, not between its steps (wide_region.h); run step by step, each of its steps rounds.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "tune/measure.h"
#include "tune/tuner.h"

namespace deepjit {

// The task in the providers' terms. Refers to both.
StepShape shape_of(const Program& program, const TuneTask& task, const TuneOptions& options);

class Verifier {
 public:
  // Runs the reference on random data. All arguments must outlive the object.
  Verifier(const Program& program, const TuneTask& task, const StepShape& shape, const TuneOptions& options);

  // Runs the reference on everything else. Takes a while: whoever has no time left asks before.
  void prepare();

  struct Verdict {
    std::string fault;  // what is wrong, with the error and what is allowed; empty: nothing
    double error = 0;   // that of the fault, or the largest on random data; infinity when NaNs or infinities differ
  };
  // `launcher` makes the kernel of `tactic` at odd sizes.
  Verdict check(Kernel& kernel, const Launcher& launcher, const Tactic& tactic);

  // Random data, to time kernels on.
  Workbench& plain() { return plain_; }

 private:
  bool goes_over_rows(const TuneTask& task) const;
  void set_odd();
  void judge(Workbench& bench, Workbench::Scale scale, bool by_steps, const char* where, Verdict& verdict) const;

  const Program& program_;
  const TuneTask& task_;
  const StepShape& shape_;
  const TuneOptions& options_;
  Workbench plain_;
  std::unique_ptr<Workbench> hard_;
  std::unique_ptr<Workbench> odd_;
  TuneTask odd_task_;
  StepShape odd_shape_;
};

}  // namespace deepjit
