// What a run is given and where it leaves its results, on the host or on the engine's device.
//
// Memory on the device is a caller's own, or a DeviceBlock that outlives the run and the context. Nothing here is
// copied between host and device unless it lies on the other side.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/tensor.h"
#include "device/device.h"

namespace deepjit {

enum class Side : uint8_t { HOST, DEVICE };

// Device memory of one output. Whoever holds it keeps it; the device too.
class DeviceBlock {
 public:
  DeviceBlock(std::shared_ptr<device::Device> device, size_t bytes)
      : device_(std::move(device)), memory_(*device_, device::Memory::Kind::DEVICE) {
    memory_.ensure(bytes);
  }
  void* data() const { return memory_.data(); }
  size_t bytes() const { return memory_.bytes(); }
  device::Device& device() const { return *device_; }

  // Work that its context does not order may use it: when nobody holds it any more it is freed, which waits for all
  // work of the device, and no run uses it again.
  void share() { shared_ = true; }
  bool shared() const { return shared_; }

  // Of a run that was not waited for: reached when the output is written, and the stream that writes it.
  void set_ready(std::shared_ptr<device::Event> event, void* stream) {
    ready_ = std::move(event);
    stream_ = stream;
  }
  const std::shared_ptr<device::Event>& ready() const { return ready_; }
  void* stream() const { return stream_; }

 private:
  std::shared_ptr<device::Device> device_;
  device::Memory memory_;
  std::atomic<bool> shared_{false};
  std::shared_ptr<device::Event> ready_;
  void* stream_ = nullptr;
};

// Where an output is to go.
struct OutputPlace {
  void* data = nullptr;  // nullptr: memory of the context
  Side side = Side::HOST;
};

struct RunRequest {
  std::span<const TensorView> inputs;  // in the program's order; dtype UNDEFINED means not fed
  std::span<const Side> memory;        // where each lies; empty: all in host memory
  // Called for each output that holds no objects, once its shape is known; may be empty.
  std::function<OutputPlace(size_t, const TensorDesc&)> place;
  bool keep_on_device = false;       // outputs that nobody places stay there, each in a DeviceBlock
  std::optional<void*> stream = {};  // of the caller, as the device's library knows it; none: the context's
  // false: everything is enqueued, nothing waited for; needs a device. Steps on the host are waited for all the same.
  bool wait = true;
  std::span<void* const> after = {};  // streams whose work so far comes before this run
};

struct RunOutput {
  TensorView view;
  Side side = Side::HOST;
  std::shared_ptr<DeviceBlock> block;  // of an output that was kept on the device
};

}  // namespace deepjit
