// Engines whose steps run on a device: what of them lies there, and how a context runs a binding.
//
// DeviceSide belongs to an engine: the device, and on it the constants and what tactics packed of them, uploaded once
// for all contexts and shape ranges. DeviceRun belongs to a context: a stream, a block of device memory for values, and
// its inputs and outputs (device_io.h). A run copies in what lies on the host, launches the steps on the stream, copies
// out what belongs on the host and waits once, at its end, or not at all.
//
// Launches that have no graph yet are put on the stream one by one, at once. Meanwhile a thread of the engine captures
// the same launches, on a stream of its own, and makes a graph of them, which later runs replay (graph_cache.h says for
// which addresses). Only capturing keeps a run of the same context waiting; that takes as long as the launches do. What
// cannot be captured is launched one by one for good.
//
// A run that is not waited for is on a stream of the caller. What comes next in the context waits for it on the device,
// whatever stream it is on; memory is given up only when it has ended.
//
// A binding with steps on the host runs in turns: a graph of launches and copies, a wait, steps on the host, and so on.
// Its runs come back when the last step on the host is done and the device at rest.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <span>

#include "device/device.h"
#include "runtime/binding.h"
#include "runtime/device_io.h"
#include "runtime/graph_cache.h"
#include "runtime/graph_jobs.h"
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
  // The engine's thread.
  BackgroundWorker& background() const { return background_; }
  // What bytes() is going to be for this program.
  static size_t bytes_for(const Program& program);

 private:
  std::shared_ptr<device::Device> device_;
  device::Memory memory_;
  std::map<std::pair<const void*, int64_t>, void*> places_;  // by where the data lies on the host, and its bytes
  mutable BackgroundWorker background_;
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
  size_t areas = 0;                // how often the area of inputs and outputs had moved then
  std::vector<GraphCache> graphs;  // of all steps, or of the device's in each turn
  GraphKey last;                   // of the last run
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
  // Waits for graphs that are being made.
  void settle() { jobs_.wait(); }
  // The binding is about to go: nothing works on it any more.
  void forget(Binding& binding);
  // A copy on the host, which waits for the streams and for nothing else.
  Tensor download(const TensorView& view, std::span<void* const> after);

  device::Device& device() const { return side_->device(); }
  // Of the last run: from its first launch to the end of its last one, on the device, without copies and without
  // waiting for the host. Measured when asked for; 0 of a run with steps on the host, which has no such time.
  double device_us() const { return device_us_; }
  void measure_device_time(bool on) { measure_ = on; }
  // The launches of the binding's last run again, as a graph, data in place and the device busy before them, as in a
  // service that has the next request at hand. The time of that run must have been measured: Error(STATE).
  double replay_us(const ProgramInfo& info, Binding& binding);
  GraphCounts graph_counts() const;
  size_t device_bytes() const { return memory_.bytes() + io_.device_bytes(); }
  size_t host_bytes() const { return io_.host_bytes() + host_.host_bytes(); }
  // Of the context's own stream, as the device's library knows it.
  void* stream_handle() const { return stream_->handle(); }

 private:
  // Steps of the device from `first` to `end`, all of them or those of a turn.
  struct Stretch {
    size_t turn = 0, first = 0, end = 0;
  };
  // Launches that want graphs: where they lie and what they read and write.
  struct Wanted {
    GraphKey key;
    std::vector<Stretch> stretches;
    void* base = nullptr;
    void* host_base = nullptr;
  };
  void prepare(const ProgramInfo& info, Binding& binding);
  void upload_known(const Program& program, Binding& binding, DeviceBinding& own);
  void place_values(const ProgramInfo& info, Binding& binding, DeviceBinding& own);
  void launch_steps(const ProgramInfo& info, Binding& binding, DeviceBinding& own, device::Stream& stream,
                    Observer* observer);
  void run_in_turns(const ProgramInfo& info, Binding& binding, DeviceBinding& own, device::Stream& stream,
                    Observer* observer);
  void launch(const ProgramInfo& info, Binding& binding, DeviceBinding& own, const Stretch& stretch,
              device::Stream& stream, Observer* observer);
  void enqueue(const ProgramInfo& info, Binding& binding, DeviceBinding& own, const Stretch& stretch,
               device::Stream& stream, bool timed, Observer* observer);
  void give_up_missing(Binding& binding);
  void post_graphs(const ProgramInfo& info, Binding& binding);
  void make_graphs(const ProgramInfo& info, Binding& binding, const Wanted& wanted) noexcept;
  void make_graph(const ProgramInfo& info, Binding& binding, const Wanted& wanted, const Stretch& stretch);
  std::unique_ptr<device::Recording> capture(const ProgramInfo& info, Binding& binding, const Wanted& wanted,
                                             const Stretch& stretch);
  void retire_graphs(const Binding& binding, DeviceBinding& own);
  static Stretch stretch_of(const Binding& binding, size_t turn);
  device::Stream& stream_for(const RunRequest& request);
  void check_indices(const Program& program);
  void come_after(device::Stream& stream, std::span<void* const> others);
  void run_on(device::Stream& stream, const ProgramInfo& info, Binding& binding, const RunRequest& request,
              Observer* observer);
  void wait_for(device::Stream& stream, const ProgramInfo& info, const RunRequest& request);

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

  // Of all that a launch goes by: bindings, their kernels, graphs, and the members below.
  mutable FairMutex launching_;
  size_t areas_ = 0;              // how often the area of inputs and outputs has moved
  GraphKey key_;                  // of the run that is on
  std::vector<Stretch> missing_;  // of the run that is on: launches that want a graph
  std::unique_ptr<device::Stream> capturing_;
  DeviceUse capture_use_;
  SpareGraphs spares_;
  GraphCounts counts_;
  std::atomic<bool> ending_{false};
  GraphJobs jobs_;  // ends first
};

}  // namespace deepjit
