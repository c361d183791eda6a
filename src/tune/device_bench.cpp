#include "tune/device_bench.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace deepjit {

namespace {

size_t aligned(size_t bytes) { return (bytes + 255) / 256 * 256; }
size_t aligned(const Tensor& tensor) { return tensor.defined() ? aligned(static_cast<size_t>(tensor.bytes())) : 0; }

}  // namespace

DeviceBench::DeviceBench(device::Device& device, std::vector<bool> cold)
    : device_(device),
      stream_(device.make_stream()),
      before_(device.make_event()),
      after_(device.make_event()),
      memory_(device, device::Memory::Kind::DEVICE),
      cold_(std::move(cold)),
      scratch_(device, device::Memory::Kind::DEVICE),
      fault_(device, device::Memory::Kind::HOST) {
  *static_cast<int*>(fault_.ensure(sizeof(int))) = 0;
}

void DeviceBench::bring(const Kernel& kernel, const Tactic& tactic) {
  // Of another kernel that was here.
  packed_.erase(&kernel);
  rotations_.erase(&kernel);
  std::erase_if(graphs_, [&](const auto& entry) { return entry.first.first == &kernel; });
  size_t bytes = 0;
  for (const PackedOperand& operand : tactic.packed) bytes += operand.input < 0 ? 0 : aligned(operand.data);
  if (bytes == 0) return;
  Packed& packed = packed_.emplace(&kernel, Packed{{}, {device_, device::Memory::Kind::DEVICE}}).first->second;
  auto* base = static_cast<std::byte*>(packed.memory.ensure(bytes));
  for (const PackedOperand& operand : tactic.packed) {
    if (operand.input < 0) continue;
    stream_->copy_in(base, operand.data.view().data, static_cast<size_t>(operand.data.bytes()));
    packed.places.push_back({static_cast<size_t>(operand.input), base, static_cast<size_t>(operand.data.bytes())});
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
    for (const Packed::Place& place : found->second.places) given_[place.input] = place.data;
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
  bytes_ = bytes;
  auto* base = static_cast<std::byte*>(memory_.ensure(bytes));
  for (const Tensor& t : inputs) {
    inputs_.push_back(t.defined() ? base : nullptr);
    input_bytes_.push_back(t.defined() ? static_cast<size_t>(t.bytes()) : 0);
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

const DeviceBench::Rotation& DeviceBench::rotation_of(const Kernel& kernel) {
  constexpr size_t kMostCopies = 64;
  constexpr size_t kLeastShare = 20;  // of all operands
  const auto [it, is_new] =
      rotations_.try_emplace(&kernel, Rotation{1, {}, 0, {device_, device::Memory::Kind::DEVICE}});
  Rotation& own = it->second;
  if (!is_new) return own;
  std::vector<size_t> bytes = input_bytes_;
  if (const auto found = packed_.find(&kernel); found != packed_.end()) {
    for (const Packed::Place& place : found->second.places) bytes[place.input] = place.bytes;
  }
  for (size_t i = 0; i < cold_.size(); ++i) {
    if (!cold_[i] || given_[i] == nullptr) continue;
    own.places.emplace_back(i, own.bytes);
    own.bytes += aligned(bytes[i]);
  }
  const size_t wanted = device_.info().l2_bytes / 4 * 5;
  if (own.bytes == 0 || own.bytes * kLeastShare < bytes_ || own.bytes >= wanted) return own;
  const size_t copies = std::min((wanted + own.bytes - 1) / own.bytes, kMostCopies);
  if ((copies - 1) * own.bytes > device_.free_bytes() / 4) return own;
  own.copies = copies;
  auto* base = static_cast<std::byte*>(own.memory.ensure((copies - 1) * own.bytes));
  for (size_t copy = 0; copy + 1 < copies; ++copy) {
    for (const auto& [input, offset] : own.places) {
      stream_->copy(base + copy * own.bytes + offset, given_[input], bytes[input]);
    }
  }
  stream_->synchronize();
  return own;
}

double DeviceBench::sample(Kernel& kernel, int repeats) {
  const KernelArgs args = args_for(kernel);
  const Rotation& rotation = rotation_of(kernel);
  const size_t rounds = (static_cast<size_t>(repeats) + rotation.copies - 1) / rotation.copies;
  repeats = static_cast<int>(rounds * rotation.copies);
  auto& graph = graphs_[{&kernel, repeats}];
  if (graph == nullptr) {
    const std::vector<void*> originals = given_;
    stream_->begin_capture();
    for (int i = 0; i < repeats; ++i) {
      const size_t copy = static_cast<size_t>(i) % rotation.copies;
      for (const auto& [input, offset] : rotation.places) {
        auto* others = static_cast<std::byte*>(rotation.memory.data());
        given_[input] = copy == 0 ? originals[input] : others + (copy - 1) * rotation.bytes + offset;
      }
      kernel.run(args);
    }
    graph = stream_->end_capture();
    stream_->launch(*graph);  // the first time is slower
  }
  stream_->record(*before_);
  stream_->launch(*graph);
  stream_->record(*after_);
  stream_->synchronize();
  return device_.elapsed_us(*before_, *after_) / repeats;
}

void DeviceBench::warm_up(Kernel& kernel) {
  constexpr auto kMost = std::chrono::milliseconds(30);
  constexpr double kSame = 0.02;
  constexpr int kInARow = 3;
  const auto start = std::chrono::steady_clock::now();
  double last = 0;
  for (int same = 0; same < kInARow && std::chrono::steady_clock::now() - start < kMost;) {
    const double us = sample(kernel, 10);
    same = std::abs(us - last) <= kSame * us ? same + 1 : 0;
    last = us;
  }
}

bool constants_are_cold(const Program& program, const device::Info& info) {
  size_t bytes = 0;
  for (const Buffer& buffer : program.buffers) {
    if (buffer.constant.defined() && !is_object(buffer.constant.dtype())) bytes += aligned(buffer.constant);
  }
  for (const Step& step : program.steps) {
    for (const PackedOperand& operand : step.tactic.packed) bytes += operand.input < 0 ? 0 : aligned(operand.data);
  }
  return bytes > info.l2_bytes / 2;
}

}  // namespace deepjit
