// One task's operands on a device: runs a candidate there and times it.
//
// Launches are timed as a graph of several in a row between two events, which is how an engine replays them; what the
// host takes to launch does not count.
//
// Operands lie where a launch finds them in a net. Values that the step before has just written are warm: all launches
// of a row read the same ones. So are constants of a program whose constants the L2 holds (constants_are_cold); of a
// larger program each launch of a row reads another copy of them, of as many as go beyond the L2. Constants that are
// less than a twentieth of all operands stay as they are.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "device/device.h"
#include "kernels/kernel.h"

namespace deepjit {

class DeviceBench {
 public:
  // `cold`: by input, whether launches are to find it outside of the L2.
  explicit DeviceBench(device::Device& device, std::vector<bool> cold = {});

  // What the tactic of this kernel packed stands in place of those inputs from now on.
  void bring(const Kernel& kernel, const Tactic& tactic);
  // Runs once over these operands; the outputs come back to where they are on the host. With `last`, only so many of
  // the last places along their first dim.
  void run(Kernel& kernel, const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs, int64_t last = 0);
  // Microseconds of one of `repeats` launches in a row, or as many more as it takes to read every copy equally often,
  // over the operands of the last run.
  double sample(Kernel& kernel, int repeats);
  // Until the clocks have risen: samples stay the same, or 30 ms are over.
  void warm_up(Kernel& kernel);

 private:
  // Copies of what a kernel reads cold, the first of which is the original.
  struct Rotation {
    size_t copies = 1;
    std::vector<std::pair<size_t, size_t>> places;  // by input, where in a copy
    size_t bytes = 0;                               // of a copy
    device::Memory memory;                          // of the others
  };
  void place(const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs);
  KernelArgs args_for(const Kernel& kernel);
  const Rotation& rotation_of(const Kernel& kernel);

  device::Device& device_;
  std::unique_ptr<device::Stream> stream_;
  std::unique_ptr<device::Event> before_, after_;
  device::Memory memory_;
  bool placed_ = false;
  std::vector<bool> cold_;
  std::vector<void*> inputs_;
  std::vector<size_t> input_bytes_;
  size_t bytes_ = 0;  // of all operands
  std::vector<void*> outputs_;
  device::Memory scratch_;
  device::Memory fault_;
  struct Packed {
    struct Place {
      size_t input = 0;
      void* data = nullptr;
      size_t bytes = 0;
    };
    std::vector<Place> places;
    device::Memory memory;
  };
  std::map<const Kernel*, Packed> packed_;
  std::map<const Kernel*, Rotation> rotations_;
  std::vector<void*> given_;                                                  // inputs of the kernel at work
  std::map<std::pair<Kernel*, int>, std::unique_ptr<device::Graph>> graphs_;  // by kernel and repeats
};

// Is the program too large for its constants to stay in the L2 from one run to the next? They may take one half of it;
// the values between the steps take the other.
bool constants_are_cold(const Program& program, const device::Info& info);

}  // namespace deepjit
