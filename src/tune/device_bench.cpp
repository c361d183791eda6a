#include "tune/device_bench.h"

namespace deepjit {

namespace {

size_t aligned(const Tensor& tensor) {
  return tensor.defined() ? (static_cast<size_t>(tensor.bytes()) + 255) / 256 * 256 : 0;
}

}  // namespace

DeviceBench::DeviceBench(device::Device& device)
    : device_(device),
      stream_(device.make_stream()),
      before_(device.make_event()),
      after_(device.make_event()),
      memory_(device, device::Memory::Kind::DEVICE) {}

// Gives every operand its place and copies the inputs there, the first time.
void DeviceBench::place(const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs) {
  if (placed_) return;
  size_t bytes = 0;
  for (const auto* list : {&inputs, &outputs}) {
    for (const Tensor& t : *list) bytes += aligned(t);
  }
  auto* base = static_cast<std::byte*>(memory_.ensure(bytes));
  for (const Tensor& t : inputs) {
    inputs_.push_back(t.defined() ? base : nullptr);
    if (t.defined()) stream_->copy_in(base, t.view().data, static_cast<size_t>(t.bytes()));
    base += aligned(t);
  }
  for (const Tensor& t : outputs) {
    outputs_.push_back(t.defined() ? base : nullptr);
    base += aligned(t);
  }
  stream_->synchronize();
  placed_ = true;
}

void DeviceBench::run(Kernel& kernel, const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs) {
  place(inputs, outputs);
  for (size_t i = 0; i < outputs.size(); ++i) {  // stale results must not pass
    if (outputs[i].defined()) stream_->fill(outputs_[i], 0x7f, static_cast<size_t>(outputs[i].bytes()));
  }
  kernel.run(args());
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].defined()) continue;
    stream_->copy_out(outputs[i].view().data, outputs_[i], static_cast<size_t>(outputs[i].bytes()));
  }
  stream_->synchronize();
}

double DeviceBench::sample(Kernel& kernel, int repeats) {
  auto& graph = graphs_[{&kernel, repeats}];
  if (graph == nullptr) {
    stream_->begin_capture();
    for (int i = 0; i < repeats; ++i) kernel.run(args());
    graph = stream_->end_capture();
    stream_->launch(*graph);  // its first launch also uploads it
  }
  stream_->record(*before_);
  stream_->launch(*graph);
  stream_->record(*after_);
  stream_->synchronize();
  return device_.elapsed_us(*before_, *after_) / repeats;
}

}  // namespace deepjit
