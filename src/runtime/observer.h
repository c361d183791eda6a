// What a profiler implements to see a run's steps and copies, and the simplest of them, which times each step.
//
// A run calls begin_step and end_step around every step, in order; the steps of bodies of If, Loop and Scan come
// between those of their step. bound.step is nullptr where an output that is an input or a constant too is copied. On a
// device the calls are made where the launches are put on the stream, not where they run, and begin_copy and end_copy
// around the copies of all inputs and of all outputs. What throws has no end.
#pragma once

#include <chrono>
#include <vector>

#include "program/program.h"

namespace deepjit {

struct Binding;
struct BoundStep;
struct DeviceUse;

struct Observer {
  enum class Copy { IN, OUT };
  virtual ~Observer() = default;
  virtual void begin_step(const Binding& /*binding*/, const BoundStep& /*bound*/) {}
  virtual void end_step(const Binding& /*binding*/, const BoundStep& /*bound*/) {}
  virtual void begin_copy(Copy /*way*/, const DeviceUse& /*use*/) {}
  virtual void end_copy(Copy /*way*/, const DeviceUse& /*use*/) {}
};

// Gives the wall time of each step; of a launch on a device, that of the device alone.
class StepTimer : public Observer {
 public:
  virtual void on_step(const Step& step, double us) = 0;
  void begin_step(const Binding& binding, const BoundStep& bound) final;
  void end_step(const Binding& binding, const BoundStep& bound) final;

 private:
  std::vector<std::chrono::steady_clock::time_point> started_;  // of the steps that are on, the innermost last
};

}  // namespace deepjit
