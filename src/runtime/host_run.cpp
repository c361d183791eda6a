#include "runtime/host_run.h"

#include <algorithm>

#include "ops/common.h"
#include "runtime/device_layout.h"

namespace deepjit {

HostRun::HostRun(const std::shared_ptr<device::Device>& device)
    : device_(*device), memory_(*device, device::Memory::Kind::HOST), inputs_(*device, device::Memory::Kind::HOST) {}

void* HostRun::memory_for(const Binding& host) {
  return memory_.ensure(device_size(host.arena_bytes) + host.scratch_bytes);
}

void HostRun::take_inputs(const ProgramInfo& info, Binding& host, const RunRequest& request, device::Stream& stream) {
  const std::vector<ProgramInput>& inputs = info.program->inputs;
  const auto lies_on_device = [&](size_t i) { return i < request.memory.size() && request.memory[i] == Side::DEVICE; };
  const auto is_read = [&](size_t i) {
    return std::binary_search(host.read_inputs.begin(), host.read_inputs.end(), inputs[i].buffer);
  };
  size_t bytes = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (host.known.count(inputs[i].buffer) != 0) continue;
    host.slots[static_cast<size_t>(inputs[i].buffer)] = {request.inputs[i].data, request.inputs[i].desc()};
    if (is_read(i) && lies_on_device(i)) bytes += device_size(bytes_of(request.inputs[i].desc()));
  }
  if (bytes == 0) return;
  std::byte* next = at(inputs_.ensure(bytes), 0);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (host.known.count(inputs[i].buffer) != 0 || !is_read(i) || !lies_on_device(i)) continue;
    const TensorView& view = request.inputs[i];
    check_on_device(device_, view.data, input_name(info, i));
    stream.copy_out(next, view.data, bytes_of(view.desc()));
    host.slots[static_cast<size_t>(inputs[i].buffer)].data = next;
    next += device_size(bytes_of(view.desc()));
  }
  stream.synchronize();
}

HostRun::Way HostRun::way_of(const ProgramInfo& info, size_t output, const TensorDesc& desc, const RunRequest& request,
                             DeviceIo& io) {
  Way way;
  if (is_object(desc.dtype)) return way;
  if (request.place) way.wanted = request.place(output, desc);
  if (way.wanted.data == nullptr && request.keep_on_device) {
    way.block = io.block_for(output, bytes_of(desc));
    way.wanted = {way.block->data(), Side::DEVICE};
  } else if (way.wanted.data != nullptr && way.wanted.side == Side::DEVICE) {
    check_on_device(device_, way.wanted.data, output_name(info, output));
  }
  return way;
}

void HostRun::bind(const ProgramInfo& info, Binding& host, const std::vector<BoundOutput>& made,
                   const RunRequest& request, DeviceIo& io, device::Stream& stream) {
  take_inputs(info, host, request, stream);
  ways_.assign(made.size(), {});
  outputs_.resize(std::max(outputs_.size(), made.size()));
  for (size_t i = 0; i < made.size(); ++i) {
    if (!made[i].on_host || made[i].dynamic) continue;
    const TensorDesc& desc = host.slots[static_cast<size_t>(made[i].slot)].desc;
    Way& way = ways_[i];
    way = way_of(info, i, desc, request, io);
    const bool direct = way.wanted.data != nullptr && way.wanted.side == Side::HOST;
    way.data = direct ? way.wanted.data : outputs_[i].ensure(bytes_of(desc));
    host.slots[static_cast<size_t>(made[i].root)].data = way.data;
  }
  follow_aliases(host);
}

void HostRun::deliver(const ProgramInfo& info, const Binding& host, const std::vector<BoundOutput>& made,
                      const RunRequest& request, DeviceIo& io, device::Stream& stream,
                      std::vector<RunOutput>& outputs) {
  bool copies = false;
  for (size_t i = 0; i < made.size(); ++i) {
    if (!made[i].on_host) continue;
    Way& way = ways_[i];
    const Slot& slot = host.slots[static_cast<size_t>(made[i].slot)];
    const TensorDesc& desc = slot.desc;
    if (made[i].dynamic) {
      way = way_of(info, i, desc, request, io);
      way.data = slot.data;
    }
    void* const wanted = way.wanted.data;
    const bool on_device = wanted != nullptr && way.wanted.side == Side::DEVICE;
    if (on_device) {
      stream.copy_in(wanted, way.data, bytes_of(desc));
      if (way.block != nullptr) way.block->set_ready(nullptr, stream.handle());
      copies = true;
    } else if (wanted != nullptr && wanted != way.data) {
      copy_elements({desc.dtype, desc.dims, way.data}, {desc.dtype, desc.dims, wanted});
    }
    outputs[i] = {{desc.dtype, desc.dims, wanted != nullptr ? wanted : way.data},
                  on_device ? Side::DEVICE : Side::HOST,
                  std::move(way.block)};
  }
  if (copies) stream.synchronize();
}

size_t HostRun::host_bytes() const {
  size_t bytes = memory_.bytes() + inputs_.bytes();
  for (const Memory& memory : outputs_) bytes += memory.bytes();
  return bytes;
}

}  // namespace deepjit
