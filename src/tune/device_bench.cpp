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
      memory_(device, device::Memory::Kind::DEVICE),
      scratch_(device, device::Memory::Kind::DEVICE),
      fault_(device, device::Memory::Kind::HOST) {
  *static_cast<int*>(fault_.ensure(sizeof(int))) = 0;
}

void DeviceBench::bring(const Kernel& kernel, const Tactic& tactic) {
  // Of another kernel that was here.
  packed_.erase(&kernel);
  std::erase_if(graphs_, [&](const auto& entry) { return entry.first.first == &kernel; });
  size_t bytes = 0;
  for (const PackedOperand& operand : tactic.packed) bytes += operand.input < 0 ? 0 : aligned(operand.data);
  if (bytes == 0) return;
  Packed& packed = packed_.emplace(&kernel, Packed{{}, {device_, device::Memory::Kind::DEVICE}}).first->second;
  auto* base = static_cast<std::byte*>(packed.memory.ensure(bytes));
  for (const PackedOperand& operand : tactic.packed) {
    if (operand.input < 0) continue;
    stream_->copy_in(base, operand.data.view().data, static_cast<size_t>(operand.data.bytes()));
    packed.places.emplace_back(static_cast<size_t>(operand.input), base);
    base += aligned(operand.data);
  }
  stream_->synchronize();
}

// Memory that has to grow would move under the graphs that use it.
KernelArgs DeviceBench::args_for(const Kernel& kernel) {
  if (kernel.scratch_bytes() > scratch_.bytes()) graphs_.clear();
  void* scratch = kernel.scratch_bytes() == 0 ? nullptr : scratch_.ensure(kernel.scratch_bytes());
  given_ = inputs_;
  if (const auto found = packed_.find(&kernel); found != packed_.end()) {
    for (const auto& [input, address] : found->second.places) given_[input] = address;
  }
  return {given_.data(), outputs_.data(), scratch, stream_.get(), static_cast<int*>(fault_.data())};
}

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

void DeviceBench::run(Kernel& kernel, const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs,
                      int64_t last) {
  place(inputs, outputs);
  for (size_t i = 0; i < outputs.size(); ++i) {  // stale results must not pass
    if (outputs[i].defined()) stream_->fill(outputs_[i], 0x7f, static_cast<size_t>(outputs[i].bytes()));
  }
  kernel.run(args_for(kernel));
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].defined()) continue;
    const int64_t bytes = outputs[i].bytes();
    const int64_t from = last > 0 ? bytes / outputs[i].dims()[0] * (outputs[i].dims()[0] - last) : 0;
    stream_->copy_out(outputs[i].as<char>() + from, static_cast<char*>(outputs_[i]) + from,
                      static_cast<size_t>(bytes - from));
  }
  stream_->synchronize();
  int& fault = *static_cast<int*>(fault_.data());
  if (fault == 0) return;
  fault = 0;
  throw Error(Code::INDEX_RANGE, "an index lies outside of what it indexes");
}

double DeviceBench::sample(Kernel& kernel, int repeats) {
  const KernelArgs args = args_for(kernel);
  auto& graph = graphs_[{&kernel, repeats}];
  if (graph == nullptr) {
    stream_->begin_capture();
    for (int i = 0; i < repeats; ++i) kernel.run(args);
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
