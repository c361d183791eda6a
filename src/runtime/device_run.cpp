#include "runtime/device_run.h"

#include <algorithm>
#include <cstring>

#include "ops/common.h"
#include "runtime/observer.h"

namespace deepjit {

namespace {

size_t aligned(size_t bytes) { return (bytes + 255) / 256 * 256; }

std::byte* at(void* base, size_t offset) { return static_cast<std::byte*>(base) + offset; }

size_t arena_and_scratch(const Binding& binding) {
  return aligned(binding.arena_bytes) + aligned(binding.scratch_bytes);
}

size_t bytes_of(const TensorDesc& desc) { return static_cast<size_t>(desc.bytes()); }

// Constants that a step reads, also in branches that a binding may take, or that are outputs themselves.
std::vector<int32_t> constants_read(const Program& program) {
  std::vector<int32_t> read;
  for (const Block& block : program.blocks) read.insert(read.end(), block.outputs.begin(), block.outputs.end());
  for (const Step& step : program.steps) read.insert(read.end(), step.inputs.begin(), step.inputs.end());
  std::sort(read.begin(), read.end());
  read.erase(std::unique(read.begin(), read.end()), read.end());
  std::erase_if(read, [&](int32_t buffer) {
    if (buffer < 0) return true;
    const Tensor& constant = program.buffers[static_cast<size_t>(buffer)].constant;
    return !constant.defined() || is_object(constant.dtype());
  });
  return read;
}

// What tactics of the steps packed of constants; code has no input.
std::vector<const PackedOperand*> packed_operands(const Program& program) {
  std::vector<const PackedOperand*> packed;
  for (const Step& step : program.steps) {
    for (const PackedOperand& operand : step.tactic.packed) {
      if (operand.input >= 0) packed.push_back(&operand);
    }
  }
  return packed;
}

}  // namespace

DeviceSide::DeviceSide(const Program& program, std::shared_ptr<device::Device> device)
    : device_(std::move(device)), memory_(*device_, device::Memory::Kind::DEVICE) {
  std::vector<std::pair<TensorView, void**>> places;
  for (int32_t buffer : constants_read(program)) {
    places.emplace_back(program.buffers[static_cast<size_t>(buffer)].constant.view(), &constants_[buffer]);
  }
  for (const PackedOperand* operand : packed_operands(program)) {
    places.emplace_back(operand->data.view(), &packed_[operand]);
  }
  size_t bytes = 0;
  for (const auto& [view, place] : places) bytes += aligned(static_cast<size_t>(view.bytes()));
  if (places.empty()) return;
  void* base = memory_.ensure(bytes);
  const auto stream = device_->make_stream();
  size_t offset = 0;
  for (const auto& [view, place] : places) {
    *place = at(base, offset);
    stream->copy_in(*place, view.data, static_cast<size_t>(view.bytes()));
    offset += aligned(static_cast<size_t>(view.bytes()));
  }
  stream->synchronize();
}

void* DeviceSide::constant(int32_t buffer) const {
  const auto found = constants_.find(buffer);
  return found == constants_.end() ? nullptr : found->second;
}

std::vector<std::pair<size_t, void*>> DeviceSide::packed(const Step& step) const {
  std::vector<std::pair<size_t, void*>> places;
  for (const PackedOperand& operand : step.tactic.packed) {
    if (operand.input >= 0) places.emplace_back(static_cast<size_t>(operand.input), packed_.at(&operand));
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
      memory_(device(), device::Memory::Kind::DEVICE),
      staging_(device(), device::Memory::Kind::HOST),
      use_{&device(), stream_.get(), before_.get(), after_.get()} {}

// Values fixed by the binding lie on the host; those that a launch or a copy reads get a place on the device.
void DeviceRun::upload_known(Binding& binding, DeviceBinding& own) {
  std::vector<int32_t> read;
  for (const BoundStep& bound : binding.steps) {
    for (int32_t buffer : bound.inputs) {
      if (binding.known.count(buffer) != 0 && side_->constant(buffer) == nullptr) read.push_back(buffer);
    }
  }
  std::sort(read.begin(), read.end());
  read.erase(std::unique(read.begin(), read.end()), read.end());
  size_t bytes = 0;
  for (int32_t buffer : read) bytes += aligned(static_cast<size_t>(binding.known.at(buffer).bytes()));
  if (read.empty()) return;
  own.known = std::make_unique<device::Memory>(device(), device::Memory::Kind::DEVICE);
  void* base = own.known->ensure(bytes);
  size_t offset = 0;
  for (int32_t buffer : read) {
    const TensorView view = binding.known.at(buffer).view();
    stream_->copy_in(at(base, offset), view.data, static_cast<size_t>(view.bytes()));
    own.known_places.emplace_back(buffer, at(base, offset));
    offset += aligned(static_cast<size_t>(view.bytes()));
  }
}

// The areas of a binding, once.
void DeviceRun::prepare(const ProgramInfo& info, Binding& binding) {
  auto made = std::make_shared<DeviceBinding>();
  DeviceBinding& own = *made;
  const std::vector<ProgramInput>& inputs = info.program->inputs;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const TensorDesc& desc = binding.slots[static_cast<size_t>(inputs[i].buffer)].desc;
    if (binding.known.count(inputs[i].buffer) != 0 || is_object(desc.dtype)) continue;
    own.inputs.push_back({inputs[i].buffer, i, own.input_bytes, bytes_of(desc)});
    own.input_bytes += aligned(bytes_of(desc));
  }
  for (size_t i = 0; i < binding.outputs.size(); ++i) {
    const BoundOutput& output = binding.outputs[i];
    if (output.dynamic) throw Error(Code::NO_DEVICE_KERNEL, "an output's shape depends on data", "use --device cpu");
    const TensorDesc& desc = binding.slots[static_cast<size_t>(output.slot)].desc;
    own.outputs.push_back({output.root, i, own.output_bytes, bytes_of(desc)});
    own.output_bytes += aligned(bytes_of(desc));
  }
  upload_known(binding, own);
  for (BoundStep& bound : binding.steps) {
    if (bound.kind == BoundStep::Kind::KERNEL) bound.packed = side_->packed(*bound.step);
  }
  binding.on_device = std::move(made);
}

// Points every slot at device memory. A block that has moved makes the graph of before useless.
void DeviceRun::place_values(const ProgramInfo& info, Binding& binding, DeviceBinding& own) {
  const size_t arena = arena_and_scratch(binding);
  void* base = memory_.ensure(arena + own.input_bytes + own.output_bytes);
  staging_.ensure(own.input_bytes + own.output_bytes);
  if (own.base == base) return;
  own.base = base;
  own.graph.reset();
  place(binding, base);
  const auto slot = [&](int32_t buffer) -> Slot& { return binding.slots[static_cast<size_t>(buffer)]; };
  for (const DeviceBinding::Place& p : own.inputs) slot(p.buffer).data = at(base, arena + p.offset);
  for (const DeviceBinding::Place& p : own.outputs) {
    slot(p.buffer).data = at(base, arena + own.input_bytes + p.offset);
  }
  for (size_t i = 0; i < info.program->buffers.size(); ++i) {
    if (!info.program->buffers[i].is_constant) continue;
    slot(static_cast<int32_t>(i)).data = side_->constant(static_cast<int32_t>(i));
  }
  for (const auto& [buffer, address] : own.known_places) slot(buffer).data = address;
}

void DeviceRun::launch_steps(const ProgramInfo& info, Binding& binding, DeviceBinding& own, Observer* observer) {
  binding.device = &use_;
  void* scratch = at(own.base, aligned(binding.arena_bytes));
  if (observer != nullptr || own.runs == 0) {
    if (measure_) stream_->record(*start_);
    execute(info, binding, scratch, observer);
    if (measure_) stream_->record(*end_);
    return;
  }
  if (own.graph == nullptr || own.graph_tells_time != measure_) {
    stream_->begin_capture();
    try {
      if (measure_) stream_->record(*start_);
      execute(info, binding, scratch, nullptr);
      if (measure_) stream_->record(*end_);
    } catch (...) {
      stream_->end_capture();
      throw;
    }
    own.graph = stream_->end_capture();
    own.graph_tells_time = measure_;
  }
  stream_->launch(*own.graph);
}

void DeviceRun::run_on_stream(const ProgramInfo& info, Binding& binding, std::span<const TensorView> fed,
                              Observer* observer) {
  DeviceBinding& own = *binding.on_device;
  place_values(info, binding, own);
  const size_t arena = arena_and_scratch(binding);
  for (const DeviceBinding::Place& p : own.inputs) {
    if (p.bytes > 0) std::memcpy(at(staging_.data(), p.offset), fed[p.input].data, p.bytes);
  }
  stream_->copy_in(at(own.base, arena), staging_.data(), own.input_bytes);
  launch_steps(info, binding, own, observer);
  stream_->copy_out(at(staging_.data(), own.input_bytes), at(own.base, arena + own.input_bytes), own.output_bytes);
  stream_->synchronize();
  ++own.runs;
}

double DeviceRun::replay_us(const Binding& binding) {
  constexpr int kReplays = 4;  // the last one is timed
  const DeviceBinding* own = binding.on_device.get();
  if (own == nullptr || own->graph == nullptr || !own->graph_tells_time) {
    throw Error(Code::STATE, "there is no run to replay", "run twice with its time measured");
  }
  for (int i = 0; i < kReplays; ++i) stream_->launch(*own->graph);
  stream_->synchronize();
  return device().elapsed_us(*start_, *end_);
}

void DeviceRun::run(const ProgramInfo& info, Binding& binding, std::span<const TensorView> fed,
                    std::vector<TensorView>& outputs, const Place& place_output, Observer* observer) {
  if (binding.on_device == nullptr) prepare(info, binding);
  try {
    run_on_stream(info, binding, fed, observer);
  } catch (...) {
    try {
      stream_->synchronize();  // the memory must be at rest before it is used again
    } catch (const Error&) {   // the first failure is the one to tell
    }
    throw;
  }
  if (measure_) device_us_ = device().elapsed_us(*start_, *end_);
  const DeviceBinding& own = *binding.on_device;
  outputs.resize(own.outputs.size());
  for (const DeviceBinding::Place& p : own.outputs) {
    const TensorDesc& desc = binding.slots[static_cast<size_t>(binding.outputs[p.input].slot)].desc;
    void* data = at(staging_.data(), own.input_bytes + p.offset);
    if (void* wanted = place_output ? place_output(p.input, desc) : nullptr; wanted != nullptr) {
      if (p.bytes > 0) std::memcpy(wanted, data, p.bytes);
      data = wanted;
    }
    outputs[p.input] = {desc.dtype, desc.dims, data};
  }
}

}  // namespace deepjit
