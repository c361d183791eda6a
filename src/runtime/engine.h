// A loaded engine and the contexts that run it.
//
// An Engine is immutable and shared by threads. A Context belongs to one thread at a time; a second thread
// that enters it gets CONCURRENT_USE. A context keeps a binding for each set of input shapes it has seen (the
// latest limits::bindings), so the first run of a shape binds and later runs of it allocate nothing. A binding is one
// of the program whose range its shapes lie in (program/ranges.h).
#pragma once

#include <atomic>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <span>

#include "base/file.h"
#include "runtime/binding.h"
#include "runtime/device_run.h"
#include "runtime/observer.h"
#include "runtime/run_request.h"

namespace deepjit {

// Checks inputs against the program's declared types and ranges: INPUT_NAME, INPUT_DTYPE, INPUT_SHAPE,
// OUT_OF_RANGE, naming the ranges. Inputs are in the program's order; dtype UNDEFINED means not fed.
void check_inputs(const Program& program, std::span<const TensorView> inputs);

class Engine {
 public:
  // `backing` holds the memory that constants refer to, or nothing. `device` picks one of the kind
  // that the program was built for, such as "cuda:1"; "" takes the first. Another kind: ENGINE_INCOMPATIBLE.
  Engine(Program program, Backing backing, const std::string& device = "");

  // That of the first shape range. Its inputs, their types, and its outputs are those of all.
  const Program& program() const { return program_; }
  const Backing& backing() const { return backing_; }
  const ProgramInfo& info() const { return infos_.front(); }
  // Of the range that the inputs lie in; the first when they lie in none.
  const ProgramInfo& info_for(std::span<const TensorView> inputs) const;
  const Program& program_for(std::span<const TensorView> inputs) const { return *info_for(inputs).program; }
  // "cpu", or the name of the device that contexts run on.
  const std::string& device_name() const { return device_name_; }
  // The engine's part on its device, made when it is first asked for; nullptr for the CPU. Throws when the machine has
  // no such device.
  std::shared_ptr<const DeviceSide> device_side() const;
  // Throws ENGINE_CHANGED when the mapped file is not the one that was loaded any more: its pages may be gone.
  void check_backing() const;

 private:
  Program program_;
  Backing backing_;
  std::vector<ProgramInfo> infos_;  // one for each shape range
  std::string device_name_;
  mutable std::mutex device_mutex_;
  mutable std::shared_ptr<const DeviceSide> device_side_;
};

// Memory for output i of the given type; nullptr lets the context use its own. Not called for outputs of objects.
using OutputAllocator = std::function<void*(size_t, const TensorDesc&)>;

class Context {
 public:
  // `threads` 0 takes the engine's number, or all cores.
  explicit Context(std::shared_ptr<const Engine> engine, int threads = 0);

  // Runs once. Inputs are in the program's order; dtype UNDEFINED means not fed. `outputs` receives one view
  // an output, valid until the next run where the context owns the memory.
  void run(std::span<const TensorView> inputs, std::vector<TensorView>& outputs,
           const OutputAllocator& allocate = nullptr);
  // The same with inputs and outputs on the engine's device, on a stream of the caller, or without waiting. Outputs
  // that lie in memory of the context are valid until its next run. ARGUMENT for what the engine's device cannot do.
  void run(const RunRequest& request, std::vector<RunOutput>& outputs);
  // Waits for runs that nobody has waited for, and for graphs of launches that are being made meanwhile.
  void finish();

  // Bytes that the context holds for intermediate values and outputs.
  size_t memory_bytes() const;
  // Those of them that lie on a device; 0 on the CPU.
  size_t device_bytes() const;
  // The context's own stream as the device's library knows it; nullptr on the CPU.
  void* stream_handle() const { return device_ == nullptr ? nullptr : device_->stream_handle(); }
  // On a device: has every run timed there, and the time of the last one; 0 on the CPU.
  void measure_device_time(bool on);
  // The launches of the last run once more, without copies; see DeviceRun. 0 on the CPU.
  double replay_us();
  // How launches reached a device so far.
  GraphCounts graph_counts() const;
  double device_us() const { return device_ == nullptr ? 0 : device_->device_us(); }
  // The binding of the last run; nullptr before.
  const Binding* last_binding() const;
  void set_observer(Observer* observer) { observer_ = observer; }
  int threads() const { return threads_; }
  const Engine& engine() const { return *engine_; }

 private:
  struct Cached {
    std::vector<TensorDesc> key;
    std::vector<Tensor> values;  // of inputs that shapes depend on; undefined for the others
    const ProgramInfo* info = nullptr;
    std::unique_ptr<Binding> binding;
    void* placed_at = nullptr;
  };
  void enter() const;
  void take_inputs(const RunRequest& request);
  void run_on_host(Cached& cached, const RunRequest& request, std::vector<RunOutput>& outputs);
  Cached& bound_for(std::span<const TensorView> inputs);
  bool matches(const Cached& cached, std::span<const TensorView> inputs) const;
  bool by_value(size_t input, const TensorView& view) const;

  std::shared_ptr<const Engine> engine_;
  int threads_;
  int process_;
  std::atomic<bool> running_{false};
  std::list<Cached> cache_;  // latest first
  Memory arena_;
  std::vector<Memory> output_memory_;
  std::vector<TensorView> fed_;
  std::vector<Side> fed_sides_;     // where each lies
  std::vector<Tensor> downloaded_;  // inputs on the device whose values are asked for
  std::vector<RunOutput> results_;
  Observer* observer_ = nullptr;
  std::unique_ptr<DeviceRun> device_;  // nullptr on the CPU
};

}  // namespace deepjit
