#include "runtime/device_run.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "kernels/provider_side.h"
#include "ops/common.h"
#include "program/ranges.h"
#include "runtime/device_layout.h"
#include "runtime/observer.h"

namespace deepjit {

namespace {

size_t bytes_of(const TensorView& view) { return static_cast<size_t>(view.bytes()); }

bool on_device(const Step& step) { return !runs_on_cpu(step.tactic.provider); }

// Constants that a step on the device reads, also in branches that a binding may take, or that are outputs themselves.
std::vector<const Tensor*> constants_read(const Program& program) {
  std::vector<int32_t> read;
  for (const Block& block : program.blocks) read.insert(read.end(), block.outputs.begin(), block.outputs.end());
  for (const Step& step : program.steps) {
    if (on_device(step)) read.insert(read.end(), step.inputs.begin(), step.inputs.end());
  }
  std::sort(read.begin(), read.end());
  read.erase(std::unique(read.begin(), read.end()), read.end());
  std::vector<const Tensor*> constants;
  for (int32_t buffer : read) {
    if (buffer < 0) continue;
    const Tensor& constant = program.buffers[static_cast<size_t>(buffer)].constant;
    if (constant.defined() && !is_object(constant.dtype())) constants.push_back(&constant);
  }
  return constants;
}

// What tactics of the steps packed of constants; code has no input.
std::vector<const Tensor*> packed_operands(const Program& program) {
  std::vector<const Tensor*> packed;
  for (const Step& step : program.steps) {
    if (!on_device(step)) continue;
    for (const PackedOperand& operand : step.tactic.packed) {
      if (operand.input >= 0) packed.push_back(&operand.data);
    }
  }
  return packed;
}

std::pair<const void*, int64_t> key_of(const Tensor& data) { return {data.view().data, data.bytes()}; }

// All that the programs of all ranges want on the device, each piece of memory once.
std::vector<const Tensor*> wanted_on_device(const Program& program) {
  std::vector<const Tensor*> wanted;
  std::set<std::pair<const void*, int64_t>> seen;
  for (const Program* one : programs_of(program)) {
    for (const auto& list : {constants_read(*one), packed_operands(*one)}) {
      for (const Tensor* data : list) {
        if (seen.insert(key_of(*data)).second) wanted.push_back(data);
      }
    }
  }
  return wanted;
}

// Values fixed by the binding that a launch or a copy reads, and no constant.
std::vector<int32_t> known_read(const Program& program, const Binding& binding) {
  std::vector<int32_t> read;
  for (const BoundStep& bound : binding.steps) {
    for (int32_t buffer : bound.inputs) {
      if (binding.known.count(buffer) == 0) continue;
      if (!program.buffers[static_cast<size_t>(buffer)].constant.defined()) read.push_back(buffer);
    }
  }
  std::sort(read.begin(), read.end());
  read.erase(std::unique(read.begin(), read.end()), read.end());
  return read;
}

}  // namespace

size_t arena_on_device(const Binding& binding) {
  return device_size(binding.arena_bytes) + device_size(binding.scratch_bytes);
}

size_t known_on_device(const Program& program, const Binding& binding) {
  size_t bytes = 0;
  for (int32_t buffer : known_read(program, binding)) bytes += device_size(bytes_of(binding.known.at(buffer).view()));
  return bytes;
}

size_t DeviceSide::bytes_for(const Program& program) {
  size_t bytes = 0;
  for (const Tensor* data : wanted_on_device(program)) bytes += device_size(bytes_of(data->view()));
  return bytes;
}

DeviceSide::DeviceSide(const Program& program, std::shared_ptr<device::Device> device)
    : device_(std::move(device)), memory_(*device_, device::Memory::Kind::DEVICE) {
  const std::vector<const Tensor*> wanted = wanted_on_device(program);
  if (wanted.empty()) return;
  void* base = memory_.ensure(bytes_for(program));
  const auto stream = device_->make_stream();
  size_t offset = 0;
  for (const Tensor* data : wanted) {
    void* place = at(base, offset);
    places_.emplace(key_of(*data), place);
    stream->copy_in(place, data->view().data, bytes_of(data->view()));
    offset += device_size(bytes_of(data->view()));
  }
  stream->synchronize();
}

void* DeviceSide::constant(const Tensor& constant) const {
  const auto found = places_.find(key_of(constant));
  return found == places_.end() ? nullptr : found->second;
}

std::vector<std::pair<size_t, void*>> DeviceSide::packed(const Step& step) const {
  std::vector<std::pair<size_t, void*>> places;
  for (const PackedOperand& operand : step.tactic.packed) {
    if (operand.input >= 0) places.emplace_back(static_cast<size_t>(operand.input), places_.at(key_of(operand.data)));
  }
  return places;
}

DeviceRun::DeviceRun(std::shared_ptr<const DeviceSide> side)
    : side_(std::move(side)),
      stream_(device().make_stream()),
      start_(device().make_event()),
      end_(device().make_event()),
      before_(device().make_event()),
      after_(device().make_event()),
      order_(device().make_event()),
      done_(device().make_event()),
      memory_(device(), device::Memory::Kind::DEVICE),
      fault_(device(), device::Memory::Kind::HOST),
      io_(side_->shared_device()),
      host_(side_->shared_device()),
      use_{&device(), stream_.get(), before_.get(), after_.get()},
      jobs_(side_->background()) {
  use_.fault = static_cast<int*>(fault_.ensure(sizeof(int)));
  *use_.fault = 0;
}

// A run that nobody has waited for tells of its indices when the next one is waited for.
void DeviceRun::check_indices(const Program& program) {
  const int fault = *use_.fault;
  if (fault == 0) return;
  *use_.fault = 0;
  const auto step = static_cast<size_t>(fault) - 1;
  const std::string name =
      step < program.steps.size() ? "node \"" + program.steps[step].name + "\" (" + program.steps[step].op + "): " : "";
  throw Error(Code::INDEX_RANGE, name + "an index lies outside of what it indexes",
              "run with --device cpu to see which");
}

DeviceRun::~DeviceRun() {
  ending_ = true;
  settle();
  try {
    finish();
  } catch (const Error&) {  // the device is lost
  }
}

void DeviceRun::finish() {
  if (!pending_) return;
  done_->synchronize();
  pending_ = false;
}

// Values fixed by the binding lie on the host; those that a launch or a copy reads get a place on the device.
void DeviceRun::upload_known(const Program& program, Binding& binding, DeviceBinding& own) {
  const std::vector<int32_t> read = known_read(program, binding);
  if (read.empty()) return;
  own.known = std::make_unique<device::Memory>(device(), device::Memory::Kind::DEVICE);
  void* base = own.known->ensure(known_on_device(program, binding));
  size_t offset = 0;
  for (int32_t buffer : read) {
    const TensorView view = binding.known.at(buffer).view();
    stream_->copy_in(at(base, offset), view.data, bytes_of(view));
    own.known_places.emplace_back(buffer, at(base, offset));
    offset += device_size(bytes_of(view));
  }
  stream_->synchronize();  // runs may be on other streams
}

// The layout of a binding, once.
void DeviceRun::prepare(const ProgramInfo& info, Binding& binding) {
  auto made = std::make_shared<DeviceBinding>();
  made->io = io_layout(info, binding);
  made->graphs.resize(std::max<size_t>(1, binding.segments.size()));
  upload_known(*info.program, binding, *made);
  for (BoundStep& bound : binding.steps) {
    if (bound.kind == BoundStep::Kind::KERNEL) bound.packed = side_->packed(*bound.step);
  }
  binding.on_device = std::move(made);
}

// Points every slot but inputs and outputs at memory. Graphs of a block that has moved fit no more.
void DeviceRun::place_values(const ProgramInfo& info, Binding& binding, DeviceBinding& own) {
  const size_t arena = arena_on_device(binding);
  if (arena > memory_.bytes()) finish();
  void* base = memory_.ensure(arena);
  void* host_base = binding.host == nullptr ? nullptr : host_.memory_for(*binding.host);
  if (own.base == base && own.host_base == host_base) return;
  own.base = base;
  own.host_base = host_base;
  retire_graphs(binding, own);
  place(binding, base);
  if (binding.host != nullptr) place(*binding.host, host_base);
  const auto slot = [&](int32_t buffer) -> Slot& { return binding.slots[static_cast<size_t>(buffer)]; };
  for (size_t i = 0; i < info.program->buffers.size(); ++i) {
    const Buffer& buffer = info.program->buffers[i];
    if (!buffer.is_constant) continue;
    slot(static_cast<int32_t>(i)).data = buffer.constant.defined() ? side_->constant(buffer.constant) : nullptr;
  }
  for (const auto& [buffer, address] : own.known_places) slot(buffer).data = address;
}

void DeviceRun::run_in_turns(const ProgramInfo& info, Binding& binding, DeviceBinding& own, device::Stream& stream,
                             Observer* observer) {
  Binding& host = *binding.host;
  void* scratch = at(own.host_base, device_size(host.arena_bytes));
  Segment before;
  for (size_t i = 0; i < binding.segments.size(); ++i) {
    const Segment& turn = binding.segments[i];
    if (before.device_end < turn.device_end) {
      launch(info, binding, own, {i, before.device_end, turn.device_end}, stream, observer);
    }
    if (turn.waits) stream.synchronize();
    execute_steps(info, host, before.host_end, turn.host_end, scratch, observer);
    before = turn;
  }
}

void DeviceRun::launch_steps(const ProgramInfo& info, Binding& binding, DeviceBinding& own, device::Stream& stream,
                             Observer* observer) {
  binding.device = &use_;
  follow_aliases(binding);
  if (binding.host != nullptr) return run_in_turns(info, binding, own, stream, observer);
  launch(info, binding, own, {0, 0, binding.steps.size()}, stream, observer);
}

device::Stream& DeviceRun::stream_for(const RunRequest& request) {
  if (!request.stream) return *stream_;
  if (borrowed_ == nullptr || borrowed_->handle() != *request.stream)
    borrowed_ = device().borrow_stream(*request.stream);
  return *borrowed_;
}

void DeviceRun::come_after(device::Stream& stream, std::span<void* const> others) {
  if (pending_) stream.wait(*done_);
  for (void* other : others) {
    device().borrow_stream(other)->record(*order_);
    stream.wait(*order_);
  }
}

void DeviceRun::run_on(device::Stream& stream, const ProgramInfo& info, Binding& binding, const RunRequest& request,
                       Observer* observer) {
  DeviceBinding& own = *binding.on_device;
  const std::lock_guard<FairMutex> lock(launching_);
  missing_.clear();
  place_values(info, binding, own);
  io_.bind(info, binding, own.io, request, [&] {
    finish();
    ++areas_;
  });
  if (own.areas != areas_) retire_graphs(binding, own);
  own.areas = areas_;
  come_after(stream, request.after);
  if (binding.host != nullptr) host_.bind(info, *binding.host, binding.outputs, request, io_, stream);
  use_.stream = &stream;
  if (observer != nullptr) observer->begin_copy(Observer::Copy::IN, use_);
  io_.copy_in(stream);
  if (observer != nullptr) observer->end_copy(Observer::Copy::IN, use_);
  launch_steps(info, binding, own, stream, observer);
  if (observer != nullptr) observer->begin_copy(Observer::Copy::OUT, use_);
  io_.copy_out(stream);
  if (observer != nullptr) observer->end_copy(Observer::Copy::OUT, use_);
  own.last.addresses = io_.addresses();
  own.last.tells_time = observer == nullptr && measure_ && binding.host == nullptr;
  if (!missing_.empty()) post_graphs(info, binding);
}

void DeviceRun::wait_for(device::Stream& stream, const ProgramInfo& info, const RunRequest& request) {
  if (request.wait && !request.stream) {
    stream.synchronize();
    pending_ = false;  // this run came after it
    check_indices(*info.program);
    return;
  }
  stream.record(*done_);
  pending_ = true;
  if (!request.wait) return;
  finish();  // for no more than this run
  check_indices(*info.program);
}

void DeviceRun::run(const ProgramInfo& info, Binding& binding, const RunRequest& request,
                    std::vector<RunOutput>& outputs, Observer* observer) {
  if (!request.wait && observer != nullptr) throw Error(Code::STATE, "a run that is timed by steps is waited for");
  if (binding.on_device == nullptr) prepare(info, binding);  // nobody else knows it yet
  device::Stream& stream = stream_for(request);
  try {
    run_on(stream, info, binding, request, observer);
    wait_for(stream, info, request);
    outputs.resize(binding.outputs.size());
    if (binding.host != nullptr) {
      host_.deliver(info, *binding.host, binding.outputs, request, io_, stream, outputs);
    }
  } catch (...) {
    give_up_missing(binding);
    try {
      stream.synchronize();   // the memory must be at rest before it is used again
    } catch (const Error&) {  // the first failure is the one to tell
    }
    throw;
  }
  if (measure_ && request.wait) {
    device_us_ = binding.host != nullptr ? 0 : device().elapsed_us(*start_, *end_);
  }
  io_.deliver(binding, binding.on_device->io, outputs, request.wait ? nullptr : done_, stream.handle());
}

Tensor DeviceRun::download(const TensorView& view, std::span<void* const> after) {
  if (device().locate(view.data) != device::Where::HERE) {
    throw Error(Code::ARGUMENT, "an input's address is not in memory of " + device().info().name);
  }
  Tensor copy(view.dtype, view.dims);
  come_after(*stream_, after);
  stream_->copy_out(copy.view().data, view.data, bytes_of(view));
  stream_->synchronize();
  return copy;
}

}  // namespace deepjit
