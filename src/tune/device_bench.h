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

  // Runs once over these operands; the outputs come back to where they are on the host.
  void run(Kernel& kernel, const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs);
  // Microseconds of one of `repeats` launches in a row, over the operands of the last run.
  double sample(Kernel& kernel, int repeats);

 private:
  void place(const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs);
  KernelArgs args() { return {inputs_.data(), outputs_.data(), nullptr, stream_.get()}; }

  device::Device& device_;
  std::unique_ptr<device::Stream> stream_;
  std::unique_ptr<device::Event> before_, after_;
  device::Memory memory_;
  bool placed_ = false;
  std::vector<void*> inputs_;
  std::vector<void*> outputs_;
  std::map<std::pair<Kernel*, int>, std::unique_ptr<device::Graph>> graphs_;  // by kernel and repeats
};

}  // namespace deepjit
