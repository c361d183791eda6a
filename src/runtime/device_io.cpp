#include "runtime/device_io.h"

#include <algorithm>
#include <cstring>

#include "ops/common.h"
#include "runtime/device_layout.h"

namespace deepjit {

namespace {

constexpr size_t kWorthOwnCopy = 256 << 10;  // bytes; below, the host copies faster than one more call takes
constexpr size_t kBlocksKept = 4;            // of one output

bool overlap(const void* a, size_t a_bytes, const void* b, size_t b_bytes) {
  const auto first = reinterpret_cast<uintptr_t>(a), second = reinterpret_cast<uintptr_t>(b);
  return first < second + b_bytes && second < first + a_bytes;
}

Error not_page_locked(const std::string& what) {
  return Error(Code::ARGUMENT, what + ": a run that is not waited for takes device memory or page-locked host memory",
               "give a tensor of the device, or wait for the run");
}

}  // namespace

std::string input_name(const ProgramInfo& info, size_t i) { return "input \"" + info.program->inputs[i].name + "\""; }
std::string output_name(const ProgramInfo& info, size_t i) {
  return "output \"" + info.program->outputs[i].name + "\"";
}

IoLayout io_layout(const ProgramInfo& info, const Binding& binding) {
  IoLayout layout;
  const std::vector<ProgramInput>& inputs = info.program->inputs;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const TensorDesc& desc = binding.slots[static_cast<size_t>(inputs[i].buffer)].desc;
    if (binding.known.count(inputs[i].buffer) != 0 || is_object(desc.dtype)) continue;
    if (!std::binary_search(binding.read_inputs.begin(), binding.read_inputs.end(), inputs[i].buffer)) continue;
    layout.inputs.push_back({inputs[i].buffer, i, layout.input_bytes, bytes_of(desc)});
    layout.input_bytes += device_size(bytes_of(desc));
  }
  for (size_t i = 0; i < binding.outputs.size(); ++i) {
    const BoundOutput& output = binding.outputs[i];
    if (output.on_host || output.dynamic) continue;
    const TensorDesc& desc = binding.slots[static_cast<size_t>(output.slot)].desc;
    layout.outputs.push_back({output.root, i, layout.output_bytes, bytes_of(desc)});
    layout.output_bytes += device_size(bytes_of(desc));
  }
  return layout;
}

void check_on_device(const device::Device& device, const void* data, const std::string& what) {
  const device::Where where = device.locate(data);
  if (where == device::Where::HERE) return;
  const std::string& name = device.info().name;
  throw Error(Code::ARGUMENT,
              what + ": its address is " +
                  (where == device::Where::ELSEWHERE ? "of another device than " + name : "not in memory of " + name),
              where == device::Where::ELSEWHERE ? "copy it there, or load the engine for its device"
                                                : "give it as host memory, or copy it to the device");
}

DeviceIo::DeviceIo(std::shared_ptr<device::Device> device)
    : device_(std::move(device)),
      area_(*device_, device::Memory::Kind::DEVICE),
      staging_(*device_, device::Memory::Kind::HOST) {}

DeviceIo::Route DeviceIo::input_route(const ProgramInfo& info, const IoPlace& place, const RunRequest& request) const {
  Route route;
  route.offset = place.offset;
  route.bytes = place.bytes;
  const TensorView& view = request.inputs[place.index];
  route.theirs = view.data;
  if (place.bytes == 0) return route;
  const std::string what = input_name(info, place.index);
  if (!request.memory.empty() && request.memory[place.index] == Side::DEVICE) {
    check_on_device(*device_, view.data, what);
    route.way = is_device_aligned(view.data) ? Way::IN_PLACE : Way::WITHIN;
    return route;
  }
  if (request.wait && place.bytes < kWorthOwnCopy) return route;
  const Tensor& otherwise = info.program->inputs[place.index].default_value;
  const bool own = otherwise.defined() && otherwise.view().data == view.data;  // read by the driver at the call
  if (own || device_->locate(view.data) == device::Where::PINNED) {
    route.way = Way::STRAIGHT;
  } else if (!request.wait) {
    throw not_page_locked(what);
  }
  return route;
}

DeviceIo::Route DeviceIo::output_route(const ProgramInfo& info, const IoPlace& place, const TensorDesc& desc,
                                       const RunRequest& request) {
  Route route;
  route.offset = place.offset;
  route.bytes = place.bytes;
  const OutputPlace wanted = request.place ? request.place(place.index, desc) : OutputPlace{};
  const std::string what = output_name(info, place.index);
  route.theirs = wanted.data;
  if (wanted.data == nullptr && request.keep_on_device) {
    route.way = Way::IN_PLACE;
    route.block = block_for(place.index, place.bytes);
    route.theirs = route.block->data();
    return route;
  }
  if (place.bytes == 0) {
    if (wanted.side == Side::DEVICE) route.way = Way::IN_PLACE;
    return route;
  }
  if (wanted.data == nullptr) {
    if (!request.wait) throw not_page_locked(what);
    return route;
  }
  if (wanted.side == Side::DEVICE) {
    check_on_device(*device_, wanted.data, what);
    const auto over = [&](const Route& other) {
      return other.way == Way::IN_PLACE && overlap(other.theirs, other.bytes, wanted.data, place.bytes);
    };
    if (std::any_of(outputs_.begin(), outputs_.end(), over)) {
      throw Error(Code::ARGUMENT, what + " overlaps another output", "give each output memory of its own");
    }
    const bool apart = std::none_of(inputs_.begin(), inputs_.end(), over);
    route.way = apart && is_device_aligned(wanted.data) ? Way::IN_PLACE : Way::WITHIN;
    return route;
  }
  if (request.wait && place.bytes < kWorthOwnCopy) return route;
  if (device_->locate(wanted.data) == device::Where::PINNED) {
    route.way = Way::STRAIGHT;
  } else if (!request.wait) {
    throw not_page_locked(what);
  }
  return route;
}

// A block that nobody holds any more, or a new one. The count of holders only falls while it is 1 here.
std::shared_ptr<DeviceBlock> DeviceIo::block_for(size_t output, size_t bytes) {
  if (kept_.size() <= output) kept_.resize(output + 1);
  std::vector<std::shared_ptr<DeviceBlock>>& blocks = kept_[output];
  std::erase_if(blocks, [](const auto& block) { return block->shared(); });
  for (const auto& block : blocks) {
    if (block.use_count() > 1 || block->bytes() < bytes) continue;
    std::atomic_thread_fence(std::memory_order_acquire);  // what its last holder did with it comes before
    if (!block->shared()) return block;
  }
  if (blocks.size() >= kBlocksKept) blocks.erase(blocks.begin());
  blocks.push_back(std::make_shared<DeviceBlock>(device_, bytes));
  return blocks.back();
}

void DeviceIo::bind(const ProgramInfo& info, Binding& binding, const IoLayout& layout, const RunRequest& request,
                    const std::function<void()>& at_rest) {
  inputs_.clear();
  outputs_.clear();
  for (const IoPlace& place : layout.inputs) inputs_.push_back(input_route(info, place, request));
  for (const IoPlace& place : layout.outputs) {
    const int32_t slot = binding.outputs[place.index].slot;
    outputs_.push_back(output_route(info, place, binding.slots[static_cast<size_t>(slot)].desc, request));
  }
  const auto any = [&](auto&& test) {
    return std::any_of(inputs_.begin(), inputs_.end(), test) || std::any_of(outputs_.begin(), outputs_.end(), test);
  };
  const size_t bytes = layout.input_bytes + layout.output_bytes;
  if (any([](const Route& route) { return route.way != Way::IN_PLACE; }) && area_.bytes() < bytes) {
    at_rest();
    area_.ensure(bytes);
    fresh_ = layout.outputs.size() > 1;
  }
  if (any([](const Route& route) { return route.way == Way::STAGED; })) staging_.ensure(bytes);
  addresses_.clear();
  const auto settle = [&](const std::vector<IoPlace>& places, std::vector<Route>& routes, size_t first) {
    for (size_t i = 0; i < places.size(); ++i) {
      Route& route = routes[i];
      route.offset += first;
      route.here = route.way == Way::IN_PLACE ? route.theirs : at(area_.data(), route.offset);
      binding.slots[static_cast<size_t>(places[i].buffer)].data = route.here;
      addresses_.push_back(route.here);
    }
  };
  settle(layout.inputs, inputs_, 0);
  settle(layout.outputs, outputs_, layout.input_bytes);
}

// What is staged, neighbours in one copy.
template <typename Copy>
void DeviceIo::for_stretches(const std::vector<Route>& routes, Copy&& copy) {
  for (size_t i = 0; i < routes.size(); ++i) {
    if (routes[i].way != Way::STAGED) continue;
    const size_t first = routes[i].offset;
    while (i + 1 < routes.size() && routes[i + 1].way == Way::STAGED) ++i;
    const size_t bytes = routes[i].offset + routes[i].bytes - first;
    if (bytes > 0) copy(first, bytes);
  }
}

void DeviceIo::copy_in(device::Stream& stream) {
  for (const Route& route : inputs_) {
    if (route.bytes == 0) continue;
    if (route.way == Way::STAGED) std::memcpy(at(staging_.data(), route.offset), route.theirs, route.bytes);
    if (route.way == Way::STRAIGHT) stream.copy_in(route.here, route.theirs, route.bytes);
    if (route.way == Way::WITHIN) stream.copy(route.here, route.theirs, route.bytes);
  }
  for_stretches(inputs_, [&](size_t first, size_t bytes) {
    stream.copy_in(at(area_.data(), first), at(staging_.data(), first), bytes);
  });
  if (fresh_) {  // outputs that are neighbours are copied with what lies between them
    const size_t first = outputs_.front().offset;
    stream.fill(at(area_.data(), first), 0, area_.bytes() - first);
    fresh_ = false;
  }
}

void DeviceIo::copy_out(device::Stream& stream) {
  for (const Route& route : outputs_) {
    if (route.way == Way::STRAIGHT) stream.copy_out(route.theirs, route.here, route.bytes);
    if (route.way == Way::WITHIN) stream.copy(route.theirs, route.here, route.bytes);
  }
  for_stretches(outputs_, [&](size_t first, size_t bytes) {
    stream.copy_out(at(staging_.data(), first), at(area_.data(), first), bytes);
  });
}

void DeviceIo::deliver(const Binding& binding, const IoLayout& layout, std::vector<RunOutput>& outputs,
                       const std::shared_ptr<device::Event>& ready, void* stream) {
  outputs.resize(binding.outputs.size());
  for (size_t i = 0; i < outputs_.size(); ++i) {
    Route& route = outputs_[i];
    const BoundOutput& bound = binding.outputs[layout.outputs[i].index];
    const TensorDesc& desc = binding.slots[static_cast<size_t>(bound.slot)].desc;
    void* data = route.theirs;
    if (route.way == Way::STAGED) {
      void* staged = at(staging_.data(), route.offset);
      if (data != nullptr && route.bytes > 0) std::memcpy(data, staged, route.bytes);
      if (data == nullptr) data = staged;
    }
    const bool on_device = route.way == Way::IN_PLACE || route.way == Way::WITHIN;
    if (route.block != nullptr) route.block->set_ready(ready, stream);
    outputs[layout.outputs[i].index] = {
        {desc.dtype, desc.dims, data}, on_device ? Side::DEVICE : Side::HOST, std::move(route.block)};
  }
}

size_t DeviceIo::device_bytes() const {
  size_t bytes = area_.bytes();
  for (const auto& blocks : kept_) {
    for (const auto& block : blocks) bytes += block->bytes();
  }
  return bytes;
}

}  // namespace deepjit
