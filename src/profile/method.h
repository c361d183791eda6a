// One way to see where the time of a run goes.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "profile/records.h"
#include "runtime/engine.h"

namespace deepjit::profile {

// What observing costs, in microseconds: inside what a step is measured to take, and around it.
struct Cost {
  double inside_us = 0;
  double around_us = 0;
};

class Method {
 public:
  virtual ~Method() = default;
  virtual std::string name() const = 0;
  // One run, profiled.
  virtual Timeline run() = 0;
  virtual Cost cost() const { return {}; }
  // Microseconds of a tick of the timelines' clock that run() gives as 1, once all runs are made.
  virtual double scale() const { return 1; }
  // Whether runs without profiling can be made between those with it.
  virtual bool mixes() const { return true; }
  // Names of kernels, as spans number them.
  virtual std::vector<std::string> kernels() const { return {}; }
  // How many kernels and copies each step launches in a run; empty when that is not known.
  virtual std::map<int32_t, double> launches() const { return {}; }
};

// The time stamp before and after each step, on the CPU. `context` has run these inputs before.
std::unique_ptr<Method> make_host_method(Context& context, std::span<const TensorView> inputs);
// Events on the stream around each step and copy, which are launched one by one.
std::unique_ptr<Method> make_event_method(Context& context, std::span<const TensorView> inputs);
// CUPTI's records, under graph replay, in a context of its own. Throws LIBRARY_MISSING or STATE, and run() STATE, where
// that is not possible; inputs and engine must outlive it. Nothing else may run on the device while it is made.
std::unique_ptr<Method> make_cupti_method(std::shared_ptr<const Engine> engine, std::span<const TensorView> inputs,
                                          int threads);

}  // namespace deepjit::profile
