#include "device/cpu/cpu_device.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "base/error.h"

namespace deepjit::device {

namespace {

using Clock = std::chrono::steady_clock;

struct CpuEvent final : Event {
  void synchronize() override {}  // all before is done
  mutable Clock::time_point at;
  mutable bool recorded = false;
};

struct CpuGraph final : Graph {
  // Whether only addresses and numbers differ.
  bool same_nodes(const CpuGraph& other) const {
    return std::equal(calls.begin(), calls.end(), other.calls.begin(), other.calls.end(),
                      [](const Call& a, const Call& b) { return a.kind == b.kind && a.function == b.function; });
  }
  std::vector<Call> calls;
};

Call call_of(Call::Kind kind, void* to = nullptr, const void* from = nullptr, size_t bytes = 0, uint8_t value = 0) {
  Call call;
  call.kind = kind;
  call.to = to;
  call.from = from;
  call.bytes = bytes;
  call.value = value;
  return call;
}

class CpuRecording final : public Recording {
 public:
  CpuRecording(CpuDevice& device, std::unique_ptr<CpuGraph> graph) : device_(device), graph_(std::move(graph)) {}
  std::unique_ptr<Graph> make(std::unique_ptr<Graph> older) override {
    const bool update = older != nullptr && static_cast<CpuGraph&>(*older).same_nodes(*graph_);
    device_.perform(call_of(update ? Call::Kind::UPDATE : Call::Kind::INSTANTIATE));
    if (!update) return std::move(graph_);
    static_cast<CpuGraph&>(*older).calls = std::move(graph_->calls);
    return older;
  }

 private:
  CpuDevice& device_;
  std::unique_ptr<CpuGraph> graph_;
};

class CpuStream final : public Stream {
 public:
  explicit CpuStream(CpuDevice& device) : device_(device) {}

  void copy_in(void* to, const void* from, size_t bytes) override {
    submit(call_of(Call::Kind::COPY_IN, to, from, bytes));
  }
  void copy_out(void* to, const void* from, size_t bytes) override {
    submit(call_of(Call::Kind::COPY_OUT, to, from, bytes));
  }
  void copy(void* to, const void* from, size_t bytes) override { submit(call_of(Call::Kind::COPY, to, from, bytes)); }
  void fill(void* to, uint8_t value, size_t bytes) override {
    submit(call_of(Call::Kind::FILL, to, nullptr, bytes, value));
  }
  void launch(const Function& function, const Launch& shape, std::span<const uint64_t> arguments) override {
    Call call;
    call.kind = Call::Kind::LAUNCH;
    call.function = &function;
    call.shape = shape;
    call.arguments.assign(arguments.begin(), arguments.end());
    submit(std::move(call));
  }
  void record(Event& event) override {
    Call call = call_of(Call::Kind::RECORD);
    call.event = &event;
    submit(std::move(call));
  }
  void wait(const Event& event) override {
    not_capturing("wait for an event");
    Call call = call_of(Call::Kind::WAIT);
    call.event = &event;
    device_.perform(call);
  }
  void synchronize() override {
    not_capturing("wait");
    device_.perform(call_of(Call::Kind::SYNCHRONIZE));
  }
  void begin_capture() override {
    not_capturing("begin to capture");
    device_.perform(call_of(Call::Kind::CAPTURE));
    captured_ = std::make_unique<CpuGraph>();
  }
  std::unique_ptr<Recording> end_recording() override {
    if (captured_ == nullptr) throw Error(Code::STATE, "the stream captures nothing");
    return std::make_unique<CpuRecording>(device_, std::move(captured_));
  }
  void launch(const Graph& graph) override {
    not_capturing("launch a graph");
    device_.perform(call_of(Call::Kind::GRAPH));
    for (Call call : static_cast<const CpuGraph&>(graph).calls) {
      call.replayed = true;
      device_.perform(call);
    }
  }
  void* handle() const override { return const_cast<CpuStream*>(this); }

 private:
  void not_capturing(const char* what) const {
    if (captured_ != nullptr) throw Error(Code::STATE, std::string("a stream that captures cannot ") + what);
  }
  void submit(Call call) {
    if (captured_ != nullptr)
      captured_->calls.push_back(std::move(call));
    else
      device_.perform(call);
  }

  CpuDevice& device_;
  std::unique_ptr<CpuGraph> captured_;
};

}  // namespace

CpuDevice::CpuDevice() {
  info_.name = info_.kind = "cpu";
  info_.model = "host";
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    if (line.rfind("model name", 0) != 0) continue;
    info_.model = line.substr(std::min(line.size(), line.find(':') + 2));
    break;
  }
  info_.memory_bytes = static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
  info_.processors = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
}

size_t CpuDevice::free_bytes() const {
  return static_cast<size_t>(sysconf(_SC_AVPHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

void* CpuDevice::take(size_t bytes, Where where) {
  constexpr size_t kAlign = 256;
  void* memory = nullptr;
  if (bytes <= info_.memory_bytes) memory = std::aligned_alloc(kAlign, (bytes / kAlign + 1) * kAlign);
  if (memory == nullptr) {
    throw Error(Code::DEVICE_OOM, info_.name + ": cannot allocate " + std::to_string(bytes) + " bytes");
  }
  const std::lock_guard<std::mutex> lock(blocks_mutex_);
  blocks_[static_cast<std::byte*>(memory)] = {bytes, where};
  return memory;
}

void CpuDevice::give_back(void* memory) noexcept {
  if (memory == nullptr) return;
  {
    const std::lock_guard<std::mutex> lock(blocks_mutex_);
    blocks_.erase(static_cast<std::byte*>(memory));
  }
  std::free(memory);
}

void* CpuDevice::allocate(size_t bytes) { return take(bytes, Where::HERE); }
void CpuDevice::free(void* memory) noexcept { give_back(memory); }
void* CpuDevice::allocate_host(size_t bytes) { return take(bytes, Where::PINNED); }
void CpuDevice::free_host(void* memory) noexcept { give_back(memory); }

Where CpuDevice::locate(const void* address) const {
  const auto* byte = static_cast<const std::byte*>(address);
  const std::lock_guard<std::mutex> lock(blocks_mutex_);
  auto after = blocks_.upper_bound(byte);
  if (after == blocks_.begin()) return Where::PAGEABLE;
  const auto& [first, block] = *--after;
  return byte == first || byte < first + block.bytes ? block.where : Where::PAGEABLE;
}

size_t CpuDevice::blocks() const {
  const std::lock_guard<std::mutex> lock(blocks_mutex_);
  return blocks_.size();
}

size_t CpuDevice::allocated_bytes(Where where) const {
  const std::lock_guard<std::mutex> lock(blocks_mutex_);
  size_t bytes = 0;
  for (const auto& [first, block] : blocks_) bytes += block.where == where ? block.bytes : 0;
  return bytes;
}

std::unique_ptr<Stream> CpuDevice::make_stream() { return std::make_unique<CpuStream>(*this); }
// There is nothing to borrow: what any stream is given is done at once.
std::unique_ptr<Stream> CpuDevice::borrow_stream(void*) { return std::make_unique<CpuStream>(*this); }
std::unique_ptr<Event> CpuDevice::make_event() { return std::make_unique<CpuEvent>(); }

double CpuDevice::elapsed_us(const Event& from, const Event& to) {
  const auto& a = static_cast<const CpuEvent&>(from);
  const auto& b = static_cast<const CpuEvent&>(to);
  if (!a.recorded || !b.recorded) throw Error(Code::STATE, "an event was not recorded");
  return std::chrono::duration<double, std::micro>(b.at - a.at).count();
}

std::shared_ptr<Module> CpuDevice::load(std::span<const uint8_t>) {
  throw Error(Code::ENGINE_INCOMPATIBLE, "the CPU loads no device code");
}

void CpuDevice::perform(const Call& call) {
  switch (call.kind) {
    case Call::Kind::COPY_IN:
    case Call::Kind::COPY_OUT:
    case Call::Kind::COPY:
      if (call.bytes > 0) std::memmove(call.to, call.from, call.bytes);
      return;
    case Call::Kind::FILL:
      if (call.bytes > 0) std::memset(call.to, call.value, call.bytes);
      return;
    case Call::Kind::RECORD:
      static_cast<const CpuEvent&>(*call.event).at = Clock::now();
      static_cast<const CpuEvent&>(*call.event).recorded = true;
      return;
    default:  // nothing to do: all before is done
      return;
  }
}

}  // namespace deepjit::device
