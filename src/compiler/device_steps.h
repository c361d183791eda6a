// Programs for a device: choosing tactics for both sides, the device and the host, and telling which steps run on the
// host and why.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "compiler/shapes.h"

namespace deepjit {

// Tunes for the device, and for the CPU what has no kernel there or runs in a body on the host: see HostSteps. A region
// without a kernel of the device is tuned for the CPU only when none of its steps has one either. `options` are the
// device's; a tactic of the CPU that they force moves the steps that offer it to the host. Without `tune_host` steps on
// the host keep the reference. `before` as for tune().
TuneReport tune_both_sides(Program& program, const std::vector<TuneTask>& tasks, const TuneOptions& options,
                           bool tune_host, TuneReport before = {});

// The steps of a program at the shapes that it was tuned for, by where they run. Steps that depend on data run on the
// host, and so do If, Loop and Scan with all of their bodies, except an If whose condition shapes or inputs' values
// decide: the branch taken then stands in for it.
struct HostSteps {
  size_t all = 0;                          // steps on either side
  std::vector<int32_t> steps;              // those on the host
  std::map<int32_t, std::string> reasons;  // why, also of the steps inside regions and bodies
  std::set<int32_t> on_device;             // the others, and those inside them

  // "3 of 20 steps: LSTM (2), TopK (1)"; empty when all run on the device.
  std::string summary(const Program& program) const;
};

// `refused` is what the tuner says, by step. Empty when no trial shape fits the program.
HostSteps find_host_steps(const Program& program, const InputShapes& shapes,
                          const std::map<int32_t, std::string>& refused);

// Throws NO_DEVICE_KERNEL, naming every step on the host and why, if there is one.
void refuse_host_steps(const Program& program, const HostSteps& host, const std::string& device);

}  // namespace deepjit
