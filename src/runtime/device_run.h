// Engines whose steps run on a device: what of them lies there, and how a context runs a binding.
//
// DeviceSide belongs to an engine: the device, and on it the constants and what tactics packed of them, uploaded once
// for all contexts. DeviceRun
// belongs to a context: a stream, one block of device memory for values, inputs and outputs, and one of host memory
// that copies go through. A run copies the inputs in, launches the steps on the stream, copies the outputs out and
// waits once, at its end. When the shapes of a binding come for the second time its launches are captured as a graph,
// which later runs replay.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>

#include "device/device.h"
#include "runtime/binding.h"

namespace deepjit {

class DeviceSide {
 public:
  DeviceSide(const Program& program, std::shared_ptr<device::Device> device);
  device::Device& device() const { return *device_; }
  // Where a constant lies on the device; nullptr when no step reads it there.
  void* constant(int32_t buffer) const;
  // The operands that the step's tactic packs, by input.
  std::vector<std::pair<size_t, void*>> packed(const Step& step) const;
  size_t bytes() const { return memory_.bytes(); }

 private:
  std::shared_ptr<device::Device> device_;
  device::Memory memory_;
  std::unordered_map<int32_t, void*> constants_;
  std::unordered_map<const PackedOperand*, void*> packed_;
};

// How launches of a binding reach the device; the events are there to time single steps.
struct DeviceUse {
  device::Device* device = nullptr;
  device::Stream* stream = nullptr;
  device::Event* before = nullptr;
  device::Event* after = nullptr;
};

// What DeviceRun keeps for one binding.
struct DeviceBinding {
  // A value in the input or output area: buffer, offset in the area, bytes.
  struct Place {
    int32_t buffer = -1;
    size_t input = 0;  // which input of the program, or output of the block
    size_t offset = 0;
    size_t bytes = 0;
  };
  std::vector<Place> inputs;
  std::vector<Place> outputs;
  size_t input_bytes = 0;
  size_t output_bytes = 0;
  std::unique_ptr<device::Memory> known;  // values fixed by the binding that steps read
  std::vector<std::pair<int32_t, void*>> known_places;
  void* base = nullptr;  // of the context's block when slots were set and the graph was captured
  size_t runs = 0;
  std::unique_ptr<device::Graph> graph;
  bool graph_tells_time = false;  // it records when its first launch starts, and when its last one ends
};

class DeviceRun {
 public:
  explicit DeviceRun(std::shared_ptr<const DeviceSide> side);

  // Runs once. `outputs` receives views of host memory: what `place` gives for output i, else the context's own.
  // `place` may be empty.
  using Place = std::function<void*(size_t, const TensorDesc&)>;
  void run(const ProgramInfo& info, Binding& binding, std::span<const TensorView> fed, std::vector<TensorView>& outputs,
           const Place& place, Observer* observer);

  device::Device& device() const { return side_->device(); }
  // Of the last run: from its first launch to the end of its last one, on the device, without copies and without
  // waiting for the host. Measured when asked for.
  double device_us() const { return device_us_; }
  void measure_device_time(bool on) { measure_ = on; }
  // The launches of the binding's last run again, data in place and the device busy before them, as in a service that
  // has the next request at hand. That run must have replayed a graph that tells time: Error(STATE).
  double replay_us(const Binding& binding);
  size_t memory_bytes() const { return memory_.bytes() + staging_.bytes(); }

 private:
  void prepare(const ProgramInfo& info, Binding& binding);
  void upload_known(Binding& binding, DeviceBinding& own);
  void place_values(const ProgramInfo& info, Binding& binding, DeviceBinding& own);
  void launch_steps(const ProgramInfo& info, Binding& binding, DeviceBinding& own, Observer* observer);
  void run_on_stream(const ProgramInfo& info, Binding& binding, std::span<const TensorView> fed, Observer* observer);

  std::shared_ptr<const DeviceSide> side_;
  std::unique_ptr<device::Stream> stream_;
  std::unique_ptr<device::Event> start_, end_, before_, after_;
  device::Memory memory_;   // arena, then inputs, then outputs
  device::Memory staging_;  // inputs, then outputs
  DeviceUse use_;
  double device_us_ = 0;
  bool measure_ = false;
};

}  // namespace deepjit
