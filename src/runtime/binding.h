// A program bound to concrete input shapes: what actually runs.
//
// Binding is the runtime's partial evaluation. It walks a block once for the given input shapes (and the
// values of small inputs that shapes depend on): evaluates shape arithmetic, drops the branches of If that
// are not taken, aliases views, lets pointwise steps work in place, lays out the arena, and makes one Kernel
// a step. Running a binding is then a plain loop. Only what depends on data stays dynamic: such a step gets
// its shapes and memory when it runs.
//
// Of a binding for a device, steps that have no kernel there run on the host, and so does what is dynamic. Such steps
// make up a binding of their own, Binding::host: the same buffers, at addresses of the host. Values that both sides
// touch are copied between the two, once a value and direction.
//
// Values of objects (strings, sequences, optionals) never lie in the arena: a step that reads or makes one is
// dynamic, and its result is owned. How many elements a sequence or optional has is data, so no binding depends on it.
#pragma once

#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "kernels/kernel.h"
#include "program/program.h"
#include "runtime/memory.h"

namespace deepjit {

struct Slot {
  void* data = nullptr;
  TensorDesc desc;  // dtype UNDEFINED until known
};

struct DeviceBinding;  // what a binding keeps on a device, see device_run.h
struct DeviceUse;      // how its launches get there

struct ControlState;  // the bound bodies of an If, Loop or Scan, see control.h

struct BoundStep {
  enum class Kind {
    KERNEL,   // shapes fixed, kernel ready
    DYNAMIC,  // shapes depend on data: inferred and allocated at each run
    CONTROL,  // If, Loop, Scan
    COPY,     // inputs[0] to outputs[0]
    UPLOAD,   // inputs[0] on the host to outputs[0] on the device
    DOWNLOAD  // inputs[0] on the device to outputs[0] on the host
  };
  BoundStep();
  BoundStep(BoundStep&&) noexcept;
  BoundStep& operator=(BoundStep&&) noexcept;
  ~BoundStep();

  Kind kind = Kind::KERNEL;
  bool objects = false;  // DYNAMIC: an operand holds objects, so that only the reference runs it
  bool on_host = false;  // of a binding for a device: it runs on the host all the same
  const Step* step = nullptr;
  std::vector<int32_t> inputs;  // buffer numbers, -1 for omitted
  std::vector<int32_t> outputs;
  std::unique_ptr<Kernel> kernel;
  std::vector<TensorDesc> seen;  // DYNAMIC: input shapes that `kernel` was made for
  // KERNEL on a device: the tactic's packed operands there, in place of those inputs.
  std::vector<std::pair<size_t, void*>> packed;
  std::unique_ptr<ControlState> control;
  // DYNAMIC and CONTROL: buffers that share an output's memory, (buffer, output). Their shape follows too,
  // unless it is fixed.
  struct Follower {
    int32_t buffer;
    int32_t output;
    bool fixed_shape;
  };
  std::vector<Follower> followers;
};

// Everything fixed about one loaded program that bindings share.
struct ProgramInfo {
  explicit ProgramInfo(const Program& program);

  const Program* program;
  std::vector<std::vector<int32_t>> imports;  // per block: outer buffers that it or its nested blocks read
  std::vector<bool> by_value;                 // per program input: its value shapes depend on
};

// What of an operand a binding depends on.
TensorDesc binding_key(const TensorView& view);

// Called for every step whose shapes are fixed, taken or not: how the tuner learns the shapes.
using StepVisitor = std::function<void(const Step&, const StepShape&)>;

struct BindRequest {
  int32_t block = 0;
  // Per block input, then per import of the block: its concrete shape, and its value where known.
  std::vector<std::pair<int32_t, TensorDesc>> inputs;
  std::unordered_map<int32_t, Tensor> known;
  int threads = 1;
  StepVisitor visitor;       // when set, branches not taken are visited too
  bool make_kernels = true;  // false: shapes and memory only
  // Where the steps run that have kernels there; nullptr: all on the host. An engine that was built to run on its
  // device only gets NO_DEVICE_KERNEL for the others.
  device::Device* device = nullptr;
};

// Where an output of the block is found after a run. Unless `dynamic`, its shape is slots[slot].desc before
// the run and the caller places it by setting slots[root].data.
struct BoundOutput {
  int32_t slot = -1;
  int32_t root = -1;
  bool dynamic = false;
  bool on_host = false;  // of a binding for a device: its slots are those of Binding::host
};

// Of a binding for a device: steps of the device up to `device_end`, then steps of the host up to `host_end`, each from
// where the segment before ended.
struct Segment {
  size_t device_end = 0;
  size_t host_end = 0;
  bool waits = false;  // the host's steps start when the device has come to an end
};

struct Binding {
  std::vector<BoundStep> steps;
  std::vector<Slot> slots;                           // by buffer number
  std::unordered_map<int32_t, Tensor> known;         // values fixed by this binding, kept alive
  std::vector<std::pair<int32_t, size_t>> in_arena;  // buffer, offset
  std::vector<std::pair<int32_t, int32_t>> aliases;  // buffer, the buffer whose memory it is; in order
  std::vector<BoundOutput> outputs;                  // one per output of the block
  std::unordered_map<int32_t, ValueMemory> owned;    // dynamic buffers and outputs nobody placed
  std::vector<Tensor> unpacked;                      // constants unpacked for kernels that need them plain
  Memory dynamic_scratch;                            // for kernels made while running
  size_t arena_bytes = 0;                            // without scratch
  size_t arena_lower_bound = 0;
  size_t scratch_bytes = 0;
  int threads = 1;
  // Operand addresses of the step that runs.
  std::vector<void*> input_addresses;
  std::vector<void*> output_addresses;
  Memory arena;  // used by bodies; the entry block uses the context's
  // Of a binding whose steps run on a device: then slots hold addresses there.
  std::shared_ptr<DeviceBinding> on_device;
  const DeviceUse* device = nullptr;
  std::unique_ptr<Binding> host;     // the steps that run on the host; nullptr: none
  std::vector<Segment> segments;     // how the steps of both take turns, when there is a host
  std::vector<int32_t> read_inputs;  // inputs of the block that the steps read, sorted
};

std::unique_ptr<Binding> bind(const ProgramInfo& info, const BindRequest& request);

// A kernel on the host for one step: by its tactic, or by the reference where the tactic cannot run these shapes there.
std::unique_ptr<Kernel> make_kernel(const Program& program, Binding& binding, const StepShape& shape);

// Points the arena's buffers into `arena` (arena_bytes + scratch_bytes bytes).
void place(Binding& binding, void* arena);

struct Observer;

// Runs all steps. slots of inputs, imports and outputs must be set; dynamic outputs end up in `owned`.
void execute(const ProgramInfo& info, Binding& binding, void* scratch, Observer* observer);

// The parts of that, for a binding that a device and the host share: first aliases follow what they are aliases of,
// then the steps in [first, end) run.
void follow_aliases(Binding& binding);
void execute_steps(const ProgramInfo& info, Binding& binding, size_t first, size_t end, void* scratch,
                   Observer* observer);

}  // namespace deepjit
