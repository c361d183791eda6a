// One task's operands on a device: runs a candidate there and times it.
//
// Launches are timed as a graph of several in a row between two events, which is how an engine replays them; what the
// host takes to launch does not count.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "device/device.h"
#include "kernels/kernel.h"

namespace deepjit {

class DeviceBench {
 public:
  explicit DeviceBench(device::Device& device);

  // What the tactic of this kernel packed stands in place of those inputs from now on.
  void bring(const Kernel& kernel, const Tactic& tactic);
  // Runs once over these operands; the outputs come back to where they are on the host. With `last`, only so many of
  // the last places along their first dim.
  void run(Kernel& kernel, const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs, int64_t last = 0);
  // Microseconds of one of `repeats` launches in a row, over the operands of the last run.
  double sample(Kernel& kernel, int repeats);

 private:
  void place(const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs);
  KernelArgs args_for(const Kernel& kernel);

  device::Device& device_;
  std::unique_ptr<device::Stream> stream_;
  std::unique_ptr<device::Event> before_, after_;
  device::Memory memory_;
  bool placed_ = false;
  std::vector<void*> inputs_;
  std::vector<void*> outputs_;
  device::Memory scratch_;
  device::Memory fault_;
  struct Packed {
    std::vector<std::pair<size_t, void*>> places;  // by input
    device::Memory memory;
  };
  std::map<const Kernel*, Packed> packed_;
  std::vector<void*> given_;                                                  // inputs of the kernel at work
  std::map<std::pair<Kernel*, int>, std::unique_ptr<device::Graph>> graphs_;  // by kernel and repeats
};

}  // namespace deepjit
