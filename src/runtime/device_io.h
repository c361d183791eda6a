// The inputs and outputs of one run on a device: where each comes from and goes, what is copied, and when.
//
// What lies on the device is used where it lies, unless its address is no multiple of 256, which kernels may rely on,
// or an output overlaps an input: then it is copied there. What lies in host memory goes through page-locked memory of
// the context, or straight where the caller's is page-locked and large enough to be worth a copy of its own.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "runtime/binding.h"
#include "runtime/run_request.h"

namespace deepjit {

// A value in the input or output area of a binding: buffer, offset in the area, bytes.
struct IoPlace {
  int32_t buffer = -1;
  size_t index = 0;  // which input of the program, or output of the block
  size_t offset = 0;
  size_t bytes = 0;
};

// What a binding's inputs and outputs need.
struct IoLayout {
  std::vector<IoPlace> inputs;
  std::vector<IoPlace> outputs;
  size_t input_bytes = 0;
  size_t output_bytes = 0;
};
IoLayout io_layout(const ProgramInfo& info, const Binding& binding);

// Throws ARGUMENT, about `what`, when the address is not in this device's memory.
void check_on_device(const device::Device& device, const void* data, const std::string& what);
std::string input_name(const ProgramInfo& info, size_t i);
std::string output_name(const ProgramInfo& info, size_t i);

class DeviceIo {
 public:
  explicit DeviceIo(std::shared_ptr<device::Device> device);

  // Settles where everything lies and points the binding's slots there; enqueues nothing. `at_rest` is called before
  // memory that an earlier run may still use is given up. ARGUMENT when memory is not where it is said to be, or when a
  // run that nobody waits for needs host memory that is not page-locked.
  void bind(const ProgramInfo& info, Binding& binding, const IoLayout& layout, const RunRequest& request,
            const std::function<void()>& at_rest);
  // On the device: of inputs, then of outputs.
  const std::vector<void*>& addresses() const { return addresses_; }
  void copy_in(device::Stream& stream);
  void copy_out(device::Stream& stream);
  // After the wait. Without one, the outputs that were kept are ready at `ready`, which `stream` comes to.
  void deliver(const Binding& binding, const IoLayout& layout, std::vector<RunOutput>& outputs,
               const std::shared_ptr<device::Event>& ready, void* stream);

  // Memory for an output that stays on the device.
  std::shared_ptr<DeviceBlock> block_for(size_t output, size_t bytes);

  size_t device_bytes() const;
  size_t host_bytes() const { return staging_.bytes(); }

 private:
  enum class Way { IN_PLACE, STAGED, STRAIGHT, WITHIN };  // WITHIN: by a copy on the device
  struct Route {
    Way way = Way::STAGED;
    void* here = nullptr;    // on the device
    void* theirs = nullptr;  // of the caller
    size_t offset = 0;       // in the staging memory
    size_t bytes = 0;
    std::shared_ptr<DeviceBlock> block;
  };
  Route input_route(const ProgramInfo& info, const IoPlace& place, const RunRequest& request) const;
  Route output_route(const ProgramInfo& info, const IoPlace& place, const TensorDesc& desc, const RunRequest& request);
  template <typename Copy>
  static void for_stretches(const std::vector<Route>& routes, Copy&& copy);

  std::shared_ptr<device::Device> device_;
  device::Memory area_;     // inputs, then outputs, of those that do not lie elsewhere
  bool fresh_ = false;      // area_ was not written yet
  device::Memory staging_;  // the same in host memory
  std::vector<Route> inputs_, outputs_;
  std::vector<void*> addresses_;
  std::vector<std::vector<std::shared_ptr<DeviceBlock>>> kept_;  // by output, to be used again when nobody holds them
};

}  // namespace deepjit
