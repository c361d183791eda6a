// What a profile says: one record a step, the parts that a run's wall time is made of, and what they were measured
// with.
//
// Times are microseconds, and of one run: a step that runs several times in a loop has its calls added up. A step's
// time does not hold that of the steps in its bodies, so that the steps and the other parts add up to the wall time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "device/clocks.h"

namespace deepjit::profile {

// Over the runs. `typical` is the mean over the half of the runs whose wall times lie in the middle: unlike
// percentiles, the typical times of all parts add up, and unlike means over all runs they do not hold what other
// programs took.
struct Times {
  double p50 = 0, p95 = 0, typical = 0;
};

struct StepRecord {
  int32_t step = -1;  // number in the program; -1: copies of outputs that are inputs or constants
  std::string op, name;
  std::string provider, variant;             // the tactic; "control" for If, Loop and Scan
  std::vector<std::string> origins;          // the model's nodes that it stands for
  std::vector<std::string> inputs, outputs;  // "float32[1,64]", of its last call
  double calls = 0;                          // a run
  double launches = 0;                       // of kernels and copies on a device; on the CPU its calls
  Times times;
  double share = 0;             // of the typical wall time without profiling
  double bytes = 0;             // inputs and outputs of a run's calls
  double flops = 0;             // by the rules of work.h
  double time_at_build_us = 0;  // what tuning measured; 0: nothing
  // Reached, over the typical time; 0 where there is nothing to count.
  double gb_s = 0, gflop_s = 0;
  // Of what the machine can do at most, 0 to 1; none where no limit was measured that holds for it.
  std::optional<double> of_roofline;
  std::string bound;  // which limit that is: "memory" or "compute"
};

// A part of the wall time; shares are of the wall time without "profiling". One of "steps", "copy in", "copy out",
// "gaps", "host", "profiling".
struct Part {
  std::string name;
  Times times;
  double share = 0;
};

// The most that the machine was seen to do, measured before the model.
struct Limits {
  struct Copy {
    double bytes = 0;  // read and written by the copies
    double gb_s = 0;
  };
  std::vector<Copy> copies;  // by size: small ones stay in a cache
  double gflop_s = 0;        // of float32 FMA; 0: not measured
};

struct WarmUp {
  double seconds = 0;
  size_t runs = 0;
  bool stable = false;  // the last batches of runs took the same time
};

constexpr int32_t kInputsAndOutputs = -2;

// Where the time of one run went, for a trace. Spans of the host nest; those of a device follow each other.
struct Span {
  enum class Kind { STEP, COPY_IN, COPY_OUT };
  Kind kind = Kind::STEP;
  int32_t step = -1;    // as in StepRecord; kInputsAndOutputs for the copies of all of them to and from a device
  int32_t kernel = -1;  // its name, in Profile::kernels
  double start_us = 0;  // since the run's start
  double end_us = 0;
};
struct Timeline {
  double wall_us = 0;
  bool on_device = false;
  std::vector<Span> spans;  // by start
};

struct Profile {
  std::string model;  // a path; for whoever knows it to fill in
  std::string device = "cpu";
  std::string precision;
  std::string method;  // "clock", "cupti" or "events"
  std::string note;    // why not a better method; empty when there is none
  int threads = 0;
  int contexts = 1;
  size_t runs = 0;
  Times wall;                              // of the profiled runs
  Times unprofiled;                        // of runs without profiling, in between or before
  std::optional<Times> unprofiled_device;  // on a device: of these runs, its launches alone
  size_t launches = 0;
  double clock_cost_us = 0;       // taken off each step, and counted as "profiling"
  std::vector<StepRecord> steps;  // the longest first; those that did not run last
  std::vector<Part> parts;
  Limits limits;
  WarmUp warm_up;
  std::optional<device::Clocks> clocks_before, clocks_after;
  std::vector<std::string> kernels;  // names of kernels on the device
  Timeline typical;                  // a run of about the median time
};

}  // namespace deepjit::profile
