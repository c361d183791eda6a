// The host's half of runs on a device: what its steps read and write, and how that gets there. See Binding::host.
//
// Values between its steps lie in page-locked memory, which copies from and to the device name. Inputs are read where
// the caller has them, outputs written where the caller wants them; those that lie on the device are copied.
#pragma once

#include <memory>
#include <vector>

#include "runtime/binding.h"
#include "runtime/device_io.h"
#include "runtime/run_request.h"

namespace deepjit {

class HostRun {
 public:
  explicit HostRun(const std::shared_ptr<device::Device>& device);

  // Where the arena and behind it the scratch memory of these steps begin. When that has changed, graphs that copy from
  // and to there are of no use any more.
  void* memory_for(const Binding& host);
  // Before a run: points the slots of inputs and outputs to memory. Waits only for inputs on the device.
  void bind(const ProgramInfo& info, Binding& host, const std::vector<BoundOutput>& made, const RunRequest& request,
            DeviceIo& io, device::Stream& stream);
  // After it, the stream being at rest: what the host made.
  void deliver(const ProgramInfo& info, const Binding& host, const std::vector<BoundOutput>& made,
               const RunRequest& request, DeviceIo& io, device::Stream& stream, std::vector<RunOutput>& outputs);

  size_t host_bytes() const;

 private:
  // An output's way: to the caller's memory, or by memory of the context.
  struct Way {
    OutputPlace wanted;
    std::shared_ptr<DeviceBlock> block;  // that keeps it
    void* data = nullptr;                // where it is written
  };
  void take_inputs(const ProgramInfo& info, Binding& host, const RunRequest& request, device::Stream& stream);
  Way way_of(const ProgramInfo& info, size_t output, const TensorDesc& desc, const RunRequest& request, DeviceIo& io);

  device::Device& device_;
  device::Memory memory_;
  device::Memory inputs_;        // copies of those on the device
  std::vector<Memory> outputs_;  // by output: those that the caller does not want in its own host memory
  std::vector<Way> ways_;
};

}  // namespace deepjit
