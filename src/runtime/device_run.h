// Engines whose steps run on a device: what of them lies there, and how a context runs a binding.
//
// DeviceSide belongs to an engine: the device, and on it the constants and what tactics packed of them, uploaded once
// for all contexts and shape ranges. DeviceRun belongs to a context: a stream, a block of device memory for values, and
// its inputs and outputs (device_io.h). A run copies in what lies on the host, launches the steps on the stream, copies
// out what belongs on the host and waits once, at its end, or not at all. When the shapes of a binding come for the
// second time its launches are captured as a graph, which later runs replay.
//
// A run that is not waited for is on a stream of the caller. What comes next in the context waits for it on the device,
// whatever stream it is on; memory is given up only when it has ended.
//
// A binding with steps on the host runs in turns: a graph of launches and copies, a wait, steps on the host, and so on.
// Its runs come back when the last step on the host is done and the device at rest.
#pragma once

#include <map>
#include <memory>
#include <span>

#include "device/device.h"
#include "runtime/binding.h"
#include "runtime/device_io.h"
#include "runtime/graph_cache.h"
#include "runtime/host_run.h"
#include "runtime/run_request.h"

namespace deepjit {

class DeviceSide {
 public:
  DeviceSide(const Program& program, std::shared_ptr<device::Device> device);
  device::Device& device() const { return *device_; }
  const std::shared_ptr<device::Device>& shared_device() const { return device_; }
  // Where a constant of one of the programs lies on the device; nullptr when no step reads it there.
  void* constant(const Tensor& constant) const;
  // The operands that the step's tactic packs, by input.
  std::vector<std::pair<size_t, void*>> packed(const Step& step) const;
  size_t bytes() const { return memory_.bytes(); }
  // What bytes() is going to be for this program.
  static size_t bytes_for(const Program& program);

 private:
  std::shared_ptr<device::Device> device_;
  device::Memory memory_;
  std::map<std::pair<const void*, int64_t>, void*> places_;  // by where the data lies on the host, and its bytes
};

// How launches of a binding reach the device; the events are there to time single steps.
struct DeviceUse {
  device::Device* device = nullptr;
  device::Stream* stream = nullptr;
  device::Event* before = nullptr;
  device::Event* after = nullptr;
  int* fault = nullptr;  // see KernelArgs
};

// What DeviceRun keeps for one binding.
struct DeviceBinding {
  IoLayout io;
  std::unique_ptr<device::Memory> known;  // values fixed by the binding that steps read
  std::vector<std::pair<int32_t, void*>> known_places;
  void* base = nullptr;  // of the context's block when slots were set and graphs were captured
  void* host_base = nullptr;
  size_t runs = 0;
  std::vector<GraphCache> graphs;  // of all steps, or of the device's in each turn
};

// Bytes on the device that a binding needs beside constants: for values and scratch, values that it fixes.
size_t arena_on_device(const Binding& binding);
size_t known_on_device(const Program& program, const Binding& binding);

class DeviceRun {
 public:
  explicit DeviceRun(std::shared_ptr<const DeviceSide> side);
  ~DeviceRun();
  DeviceRun(const DeviceRun&) = delete;
  DeviceRun& operator=(const DeviceRun&) = delete;

  void run(const ProgramInfo& info, Binding& binding, const RunRequest& request, std::vector<RunOutput>& outputs,
           Observer* observer);
  // Waits for runs that nobody has waited for.
  void finish();
  // A copy on the host, which waits for the streams and for nothing else.
  Tensor download(const TensorView& view, std::span<void* const> after);

  device::Device& device() const { return side_->device(); }
  // Of the last run: from its first launch to the end of its last one, on the device, without copies and without
  // waiting for the host. Measured when asked for; 0 of a run with steps on the host, which has no such time.
  double device_us() const { return device_us_; }
  void measure_device_time(bool on) { measure_ = on; }
  // The launches of the binding's last run again, data in place and the device busy before them, as in a service that
  // has the next request at hand. That run must have replayed a graph that tells time: Error(STATE).
  double replay_us(const Binding& binding);
  size_t device_bytes() const { return memory_.bytes() + io_.device_bytes(); }
  size_t host_bytes() const { return io_.host_bytes() + host_.host_bytes(); }
  // Of the context's own stream, as the device's library knows it.
  void* stream_handle() const { return stream_->handle(); }

 private:
  void prepare(const ProgramInfo& info, Binding& binding);
  void upload_known(const Program& program, Binding& binding, DeviceBinding& own);
  void place_values(const ProgramInfo& info, Binding& binding, DeviceBinding& own);
  // Steps of the device from `first` to `end`, all of them or those of a turn.
  struct Stretch {
    size_t turn = 0, first = 0, end = 0;
  };
  void launch_steps(const ProgramInfo& info, Binding& binding, DeviceBinding& own, device::Stream& stream,
                    Observer* observer);
  void run_in_turns(const ProgramInfo& info, Binding& binding, DeviceBinding& own, device::Stream& stream,
                    Observer* observer);
  void launch(const ProgramInfo& info, Binding& binding, DeviceBinding& own, const Stretch& stretch,
              device::Stream& stream, Observer* observer);
  void enqueue(const ProgramInfo& info, Binding& binding, DeviceBinding& own, const Stretch& stretch,
               device::Stream& stream, Observer* observer);
  device::Graph& graph_of(const ProgramInfo& info, Binding& binding, DeviceBinding& own, const Stretch& stretch);
  device::Stream& stream_for(const RunRequest& request);
  void check_indices(const Program& program);
  void come_after(device::Stream& stream, std::span<void* const> others);
  void run_on(device::Stream& stream, const ProgramInfo& info, Binding& binding, const RunRequest& request,
              Observer* observer);

  std::shared_ptr<const DeviceSide> side_;
  std::unique_ptr<device::Stream> stream_;
  std::unique_ptr<device::Stream> borrowed_;  // the caller's of the last run that had one
  std::unique_ptr<device::Event> start_, end_, before_, after_, order_;
  std::shared_ptr<device::Event> done_;  // behind the last run that was not waited for
  bool pending_ = false;                 // it may still run
  device::Memory memory_;                // the arena
  device::Memory fault_;                 // what kernels say of indices: one number, read once they have run
  DeviceIo io_;
  HostRun host_;
  DeviceUse use_;
  double device_us_ = 0;
  bool measure_ = false;
};

}  // namespace deepjit
