#include "device/cuda/cuda_device.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>

#include "base/error.h"
#include "device/cuda/driver.h"

namespace deepjit::device {

namespace {

using cuda::check;
using cuda::driver;

cuda::Address address(const void* memory) { return reinterpret_cast<cuda::Address>(memory); }

// Makes a device's context current for a while and then the caller's again.
class Current {
 public:
  explicit Current(cuda::Context context) { check(driver().context_push(context), "use the device"); }
  ~Current() {
    cuda::Context ignored = nullptr;
    driver().context_pop(&ignored);
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;
};

// In destructors: whatever happens, go on.
template <typename F>
void quietly(cuda::Context context, F&& body) noexcept {
  try {
    if (driver().context_push(context) != cuda::kSuccess) return;
    body();
    cuda::Context ignored = nullptr;
    driver().context_pop(&ignored);
  } catch (const Error&) {  // in a forked child nothing of CUDA can be given back
  }
}

class CudaEvent final : public Event {
 public:
  explicit CudaEvent(cuda::Context context) : context_(context) {
    const Current current(context_);
    check(driver().event_create(&handle_, 0), "make an event");
  }
  ~CudaEvent() override {
    quietly(context_, [&] { driver().event_destroy(handle_); });
  }
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;
  void synchronize() override {
    const Current current(context_);
    check(driver().event_synchronize(handle_), "wait for an event");
  }
  cuda::EventHandle handle() const { return handle_; }

 private:
  cuda::Context context_;
  cuda::EventHandle handle_ = nullptr;
};

class CudaGraph final : public Graph {
 public:
  CudaGraph(cuda::Context context, cuda::GraphHandle graph) : context_(context) {
    check(driver().graph_instantiate(&exec_, graph, 0), "make a graph");
  }
  ~CudaGraph() override {
    quietly(context_, [&] { driver().graph_exec_destroy(exec_); });
  }
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;
  // Takes what differs from `graph`; false when the nodes are others.
  bool update(cuda::GraphHandle graph) {
    cuda::GraphUpdate told;
    return driver().graph_update(exec_, graph, &told) == cuda::kSuccess;
  }
  cuda::GraphExec handle() const { return exec_; }

 private:
  cuda::Context context_;
  cuda::GraphExec exec_ = nullptr;
};

class CudaRecording final : public Recording {
 public:
  // Takes the graph. The stream is the one that captured it.
  CudaRecording(cuda::Context context, cuda::GraphHandle graph, cuda::StreamHandle stream)
      : context_(context), graph_(graph), stream_(stream) {}
  ~CudaRecording() override {
    quietly(context_, [&] { driver().graph_destroy(graph_); });
  }
  CudaRecording(const CudaRecording&) = delete;
  CudaRecording& operator=(const CudaRecording&) = delete;

  std::unique_ptr<Graph> make(std::unique_ptr<Graph> older) override {
    const Current current(context_);
    if (older != nullptr && static_cast<CudaGraph&>(*older).update(graph_)) return older;
    auto made = std::make_unique<CudaGraph>(context_, graph_);
    // Else the first launch does it.
    check(driver().graph_upload(made->handle(), stream_), "bring a graph to the device");
    check(driver().stream_synchronize(stream_), "bring a graph to the device");
    return made;
  }

 private:
  cuda::Context context_;
  cuda::GraphHandle graph_;
  cuda::StreamHandle stream_;
};

class CudaFunction final : public Function {
 public:
  CudaFunction(cuda::Context context, cuda::FunctionHandle handle, size_t most_shared)
      : context_(context), handle_(handle), most_shared_(most_shared) {}

  int blocks_per_processor(uint32_t threads, size_t shared_bytes) const override {
    if (threads == 0 || !allow_shared(shared_bytes)) return 0;
    const Current current(context_);
    int blocks = 0;
    check(driver().occupancy(&blocks, handle_, static_cast<int>(threads), shared_bytes), "ask for the occupancy");
    return blocks;
  }

  // Above 48 KiB, what the function declares itself included, it must be told first; it stays so. False when a block
  // cannot have so much.
  bool allow_shared(size_t bytes) const {
    constexpr size_t kWithoutAsking = 32 << 10;
    if (bytes > most_shared_) return false;
    const std::lock_guard<std::mutex> lock(mutex_);
    if (bytes <= std::max(kWithoutAsking, allowed_)) return true;
    const Current current(context_);
    if (driver().function_set(handle_, cuda::kFunctionDynamicSharedBytes, static_cast<int>(bytes)) != cuda::kSuccess) {
      return false;  // static shared memory counts too
    }
    allowed_ = bytes;
    return true;
  }
  cuda::FunctionHandle handle() const { return handle_; }

 private:
  cuda::Context context_;
  cuda::FunctionHandle handle_;
  size_t most_shared_;
  mutable std::mutex mutex_;
  mutable size_t allowed_ = 0;
};

class CudaModule final : public Module {
 public:
  CudaModule(cuda::Context context, std::span<const uint8_t> code, size_t most_shared)
      : context_(context), most_shared_(most_shared) {
    const Current current(context_);
    char log[1024] = "";
    int options[] = {cuda::kJitErrorLogBuffer, cuda::kJitErrorLogBufferBytes};
    void* values[] = {log, reinterpret_cast<void*>(sizeof log - 1)};
    const cuda::Result result = driver().module_load(&handle_, code.data(), 2, options, values);
    const std::string what = *log == '\0' ? std::string("load a kernel") : std::string("load a kernel (") + log + ")";
    check(result, what.c_str());
  }
  ~CudaModule() override {
    quietly(context_, [&] { driver().module_unload(handle_); });
  }
  CudaModule(const CudaModule&) = delete;
  CudaModule& operator=(const CudaModule&) = delete;

  const Function& function(const std::string& name) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (const auto found = functions_.find(name); found != functions_.end()) return found->second;
    const Current current(context_);
    cuda::FunctionHandle handle = nullptr;
    check(driver().module_function(&handle, handle_, name.c_str()), ("find the kernel " + name).c_str());
    return functions_.try_emplace(name, context_, handle, most_shared_).first->second;
  }

 private:
  cuda::Context context_;
  size_t most_shared_;
  cuda::ModuleHandle handle_ = nullptr;
  std::mutex mutex_;
  std::map<std::string, CudaFunction> functions_;
};

class CudaStream final : public Stream {
 public:
  explicit CudaStream(cuda::Context context) : context_(context) {
    const Current current(context_);
    check(driver().stream_create(&handle_, cuda::kStreamNonBlocking), "make a stream");
    owned_ = true;
  }
  CudaStream(cuda::Context context, void* handle)
      : context_(context), handle_(static_cast<cuda::StreamHandle>(handle)) {}
  ~CudaStream() override {
    if (!owned_) return;
    quietly(context_, [&] {
      driver().stream_synchronize(handle_);
      driver().stream_destroy(handle_);
    });
  }
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  void copy_in(void* to, const void* from, size_t bytes) override {
    if (bytes == 0) return;
    const Current current(context_);
    check(driver().copy_in(address(to), from, bytes, handle_), "copy to the device");
  }
  void copy_out(void* to, const void* from, size_t bytes) override {
    if (bytes == 0) return;
    const Current current(context_);
    check(driver().copy_out(to, address(from), bytes, handle_), "copy from the device");
  }
  void copy(void* to, const void* from, size_t bytes) override {
    if (bytes == 0) return;
    const Current current(context_);
    check(driver().copy(address(to), address(from), bytes, handle_), "copy on the device");
  }
  void fill(void* to, uint8_t value, size_t bytes) override {
    if (bytes == 0) return;
    const Current current(context_);
    check(driver().fill(address(to), value, bytes, handle_), "fill device memory");
  }

  void launch(const Function& function, const Launch& shape, std::span<const uint64_t> arguments) override {
    const auto& own = static_cast<const CudaFunction&>(function);
    const Current current(context_);
    pointers_.clear();
    const size_t count = shape.arguments_in(arguments);
    for (size_t i = 0; i < count; ++i) pointers_.push_back(const_cast<uint64_t*>(&arguments[i]));
    check(driver().launch(own.handle(), shape.blocks, 1, 1, shape.threads, 1, 1,
                          static_cast<unsigned>(shape.shared_bytes), handle_, pointers_.data(), nullptr),
          "launch a kernel");
  }

  void record(Event& event) override {
    const Current current(context_);
    // While capturing, a node of the graph that records it in each replay: not a mark inside the capture.
    const unsigned flags = capturing_ ? cuda::kRecordExternal : 0;
    check(driver().event_record(static_cast<CudaEvent&>(event).handle(), handle_, flags), "record an event");
  }
  void wait(const Event& event) override {
    not_capturing("wait for an event");
    const Current current(context_);
    check(driver().stream_wait(handle_, static_cast<const CudaEvent&>(event).handle(), 0), "wait for an event");
  }
  void synchronize() override {
    not_capturing("wait");
    const Current current(context_);
    check(driver().stream_synchronize(handle_), "finish its work");
  }

  void begin_capture() override {
    not_capturing("begin to capture");
    const Current current(context_);
    check(driver().begin_capture(handle_, cuda::kCaptureThreadLocal), "capture a graph");
    capturing_ = true;
  }
  std::unique_ptr<Recording> end_recording() override {
    if (!capturing_) throw Error(Code::STATE, "the stream captures nothing");
    capturing_ = false;
    const Current current(context_);
    cuda::GraphHandle graph = nullptr;
    check(driver().end_capture(handle_, &graph), "capture a graph");
    return std::make_unique<CudaRecording>(context_, graph, handle_);
  }
  void launch(const Graph& graph) override {
    not_capturing("launch a graph");
    const Current current(context_);
    check(driver().graph_launch(static_cast<const CudaGraph&>(graph).handle(), handle_), "launch a graph");
  }
  void* handle() const override { return handle_; }

 private:
  void not_capturing(const char* what) const {
    if (capturing_) throw Error(Code::STATE, std::string("a stream that captures cannot ") + what);
  }

  cuda::Context context_;
  cuda::StreamHandle handle_ = nullptr;
  bool owned_ = false;
  bool capturing_ = false;
  std::vector<void*> pointers_;  // to the arguments of one launch
};

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(int number) {
    check(driver().device_get(&number_, number), "find the device");
    check(driver().context_retain(&context_, number_), "make a context");
    try {
      describe(number);
    } catch (...) {
      driver().context_release(number_);
      throw;
    }
  }
  ~CudaDevice() override {
    quietly(context_, [&] { drop_kept(); });
    leave_kept();
    try {
      driver().context_release(number_);
    } catch (const Error&) {  // in a forked child
    }
  }
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  const Info& info() const override { return info_; }

  void enter() override { check(driver().context_push(context_), "use the device"); }
  void leave() noexcept override {
    cuda::Context ignored = nullptr;
    driver().context_pop(&ignored);
  }

  size_t free_bytes() const override {
    const Current current(context_);
    size_t free = 0;
    size_t total = 0;
    check(driver().memory_info(&free, &total), "ask for free memory");
    return free;
  }

  void* allocate(size_t bytes) override {
    const Current current(context_);
    cuda::Address memory = 0;
    check(driver().memory_alloc(&memory, std::max<size_t>(bytes, 1)),
          ("allocate " + std::to_string(bytes) + " bytes on " + info_.name).c_str());
    return reinterpret_cast<void*>(memory);
  }
  void free(void* memory) noexcept override {
    if (memory == nullptr) return;
    quietly(context_, [&] { driver().memory_free(address(memory)); });
  }
  void* allocate_host(size_t bytes) override {
    const Current current(context_);
    void* memory = nullptr;
    check(driver().host_alloc(&memory, std::max<size_t>(bytes, 1)),
          ("allocate " + std::to_string(bytes) + " bytes of host memory").c_str());
    return memory;
  }
  void free_host(void* memory) noexcept override {
    if (memory == nullptr) return;
    quietly(context_, [&] { driver().host_free(memory); });
  }

  // The driver answers for memory that it does not know with zeros.
  Where locate(const void* memory) const override {
    const Current current(context_);
    unsigned type = 0, managed = 0;
    int number = -1;
    int asked[] = {cuda::kPointerMemoryType, cuda::kPointerIsManaged, cuda::kPointerDevice};
    void* answers[] = {&type, &managed, &number};
    check(driver().pointer_attributes(3, asked, answers, address(memory)), "ask where memory lies");
    if (managed != 0) return Where::HERE;
    if (type == cuda::kMemoryDevice) return number == number_ ? Where::HERE : Where::ELSEWHERE;
    return type == cuda::kMemoryHost ? Where::PINNED : Where::PAGEABLE;
  }

  std::unique_ptr<Stream> make_stream() override { return std::make_unique<CudaStream>(context_); }
  std::unique_ptr<Stream> borrow_stream(void* handle) override {
    return std::make_unique<CudaStream>(context_, handle);
  }
  std::unique_ptr<Event> make_event() override { return std::make_unique<CudaEvent>(context_); }

  double elapsed_us(const Event& from, const Event& to) override {
    const Current current(context_);
    float ms = 0;
    const cuda::Result result = driver().event_elapsed(&ms, static_cast<const CudaEvent&>(from).handle(),
                                                       static_cast<const CudaEvent&>(to).handle());
    constexpr cuda::Result kInvalidHandle = 400, kNotReady = 600;
    if (result == kInvalidHandle || result == kNotReady) {
      throw Error(Code::STATE, "an event was not recorded or is not reached");
    }
    check(result, "time events");
    return static_cast<double>(ms) * 1000;
  }

  RowMap map_rows(const void* rows, int64_t count, int64_t columns, int64_t pitch, int64_t box_rows) const override {
    constexpr int kUint16 = 1, kPlain = 0, kSwizzle128 = 3, kPromote256 = 3, kZeros = 0;  // CUtensorMap...
    alignas(64) RowMap map{};
    const uint64_t dims[2] = {static_cast<uint64_t>(columns), static_cast<uint64_t>(count)};
    const uint64_t pitches[1] = {static_cast<uint64_t>(pitch)};
    const unsigned box[2] = {64, static_cast<unsigned>(box_rows)}, steps[2] = {1, 1};
    check(driver().map_tiled(map.data(), kUint16, 2, const_cast<void*>(rows), dims, pitches, box, steps, kPlain,
                             kSwizzle128, kPromote256, kZeros),
          "describe rows for tensor copies");
    return map;
  }

  std::shared_ptr<Module> load(std::span<const uint8_t> code) override {
    // The driver takes a cubin, or text up to a NUL that it looks for itself.
    const bool cubin = code.size() > 4 && std::memcmp(code.data(), "\177ELF", 4) == 0;
    if (!cubin && (code.empty() || code.back() != 0)) {
      throw Error(Code::ENGINE_INCOMPATIBLE, info_.name + ": the code is neither a cubin nor PTX");
    }
    return std::make_shared<CudaModule>(context_, code, info_.shared_bytes_per_block);
  }

 private:
  int attribute(int which) const {
    int value = 0;
    check(driver().device_attribute(&value, which, number_), "ask for what the device can do");
    return value;
  }

  void describe(int number) {
    info_.name = "cuda:" + std::to_string(number);
    info_.kind = "cuda";
    char name[128] = "";
    check(driver().device_name(name, sizeof name, number_), "ask for the device's name");
    info_.model = name;
    const int version = driver().version;
    info_.driver_version = "CUDA " + std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
    info_.driver = info_.driver_version + ", " + driver().file;
    if (const std::string own = cuda::file_version(); !own.empty()) info_.driver_version += ", " + own;
    info_.architecture = attribute(cuda::kAttributeMajor) * 10 + attribute(cuda::kAttributeMinor);
    info_.processors = attribute(cuda::kAttributeProcessors);
    info_.threads_per_block = attribute(cuda::kAttributeThreadsPerBlock);
    info_.shared_bytes_per_block = static_cast<size_t>(attribute(cuda::kAttributeSharedPerBlockOptIn));
    info_.l2_bytes = static_cast<size_t>(attribute(cuda::kAttributeL2Bytes));
    info_.shared_bytes_per_processor = static_cast<size_t>(attribute(cuda::kAttributeSharedPerProcessor));
    driver().device_attribute(&info_.clock_khz, cuda::kAttributeClockKhz, number_);  // not every GPU tells
    driver().device_attribute(&info_.memory_clock_khz, cuda::kAttributeMemoryClockKhz, number_);
    driver().device_attribute(&info_.memory_bus_bits, cuda::kAttributeMemoryBusBits, number_);
    check(driver().device_memory(&info_.memory_bytes, number_), "ask for the device's memory");
  }

  Info info_;
  cuda::DeviceNumber number_ = 0;
  cuda::Context context_ = nullptr;
};

}  // namespace

int cuda_device_count() {
  int count = 0;
  check(driver().device_count(&count), "count the devices");
  if (count == 0) throw Error(Code::DEVICE_MISSING, "this machine has no CUDA device", "use --device cpu");
  return count;
}

std::shared_ptr<Device> make_cuda_device(int number) {
  const int count = cuda_device_count();
  if (number >= count) {
    throw Error(Code::DEVICE_MISSING, "there is no device cuda:" + std::to_string(number),
                "the machine has " + std::to_string(count) + ": cuda:0" +
                    (count > 1 ? " to cuda:" + std::to_string(count - 1) : ""));
  }
  return std::make_shared<CudaDevice>(number);
}

}  // namespace deepjit::device
