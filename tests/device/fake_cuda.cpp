// A stand-in for libcuda.so.1 over host memory: it lets the CUDA device's own
// code run on machines without a GPU.
//
// It is as strict as the driver about current contexts, handles, captures and
// addresses, and lazier than any GPU: a stream does what it was given only when
// somebody waits for it, so that a wait which is missing shows. It knows one
// kernel of its own, twice_plus, and runs what the stand-in compiler
// (fake_nvrtc.cpp) made of CUDA text. A kernel that is given an address outside
// of device memory loses the device for good. fake_cuda.h has what tests ask it
// beyond the driver's functions.
#include "fake_cuda.h"

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "fake_code.h"

namespace {

constexpr int kOk = 0, kInvalidValue = 1, kOutOfMemory = 2, kNoContext = 201, kNoBinary = 209, kInvalidImage = 200,
              kInvalidHandle = 400, kNotFound = 500, kNotReady = 600, kIllegalAddress = 700, kLaunchFailed = 719,
              kCaptureUnsupported = 900, kCaptureImplicit = 901, kUpdateFailure = 910;
constexpr size_t kMemory = size_t{8} << 30;
constexpr int kShared = 232448;

using Address = unsigned long long;
using Work = std::function<void()>;

struct Context {
} the_context;
struct Stream;
struct Event {
  Stream* stream = nullptr;  // of its last record, which is number `ticket` there
  uint64_t ticket = 0;
  bool reached = false;
  std::chrono::steady_clock::time_point at;
};
struct Function {
  std::string name = "twice_plus";
  int shared = 48 << 10;
  std::vector<size_t> parameters = {8, 8, 8, 8};  // bytes of each
  fake_gpu::Launch launch = nullptr;              // nullptr: twice_plus
};
struct Node {
  enum Kind { COPY_IN, COPY_OUT, COPY, FILL, RECORD, KERNEL } kind;
  Work work;
  Event* event = nullptr;
  const Function* function = nullptr;
};
struct Graph {
  std::vector<Node> nodes;
};
struct Stream {
  std::unique_ptr<Graph> capture;
  std::deque<Work> todo;
  uint64_t given = 0;
  uint64_t done = 0;
  uint32_t number = 0;  // of those that were made, from 1; 0: not made by anyone
};
struct Module {
  void* library = nullptr;  // nullptr: of twice_plus
  std::map<std::string, Function> functions;
};
struct Block {
  size_t bytes = 0;
  int device = 0;
};
using Blocks = std::map<Address, Block>;

std::recursive_mutex mutex;  // of everything below
using Lock = std::lock_guard<std::recursive_mutex>;
int retained = 0;
int lost = kOk;
thread_local std::vector<Context*> current;
Blocks device_blocks, host_blocks;
std::set<Stream*>& streams = *new std::set<Stream*>;  // tests end with streams of their own
std::set<Event*> events;
Stream legacy, per_thread;
fake_cuda_counts counts;
uint32_t streams_made = 0;
const Stream* running = nullptr;
fake_cuda_watcher watcher = nullptr;

bool has_context() { return !current.empty() && current.back() == &the_context && retained > 0; }
Address number(const void* memory) { return reinterpret_cast<Address>(memory); }
void* host(Address address) { return reinterpret_cast<void*>(address); }

const Block* block_of(const Blocks& blocks, Address address, size_t bytes) {
  auto after = blocks.upper_bound(address);
  if (after == blocks.begin()) return nullptr;
  const auto& [first, block] = *--after;
  return address + bytes <= first + block.bytes ? &block : nullptr;
}
bool on_device(Address address, size_t bytes) {
  const Block* block = block_of(device_blocks, address, bytes);
  return block != nullptr && block->device == 0;
}

// The stream of a handle; nullptr when there is none.
Stream* stream_of(Stream* handle) {
  if (handle == nullptr || number(handle) == 1) return &legacy;
  if (number(handle) == 2) return &per_thread;
  return streams.count(handle) != 0 ? handle : nullptr;
}

void run_until(Stream& stream, uint64_t ticket) {
  while (stream.done < ticket) {
    const Work work = std::move(stream.todo.front());
    stream.todo.pop_front();
    const Stream* outer = running;
    running = &stream;
    work();
    running = outer;
    ++stream.done;
  }
}
void run_all() {
  for (Stream* stream : streams) run_until(*stream, stream->given);
  for (Stream* stream : {&legacy, &per_thread}) run_until(*stream, stream->given);
}

Stream* make_stream() {
  Stream* stream = *streams.insert(new Stream).first;
  stream->number = ++streams_made;
  return stream;
}

void reach(Event* event) {
  if (events.count(event) == 0) return;
  event->reached = true;
  event->at = std::chrono::steady_clock::now();
}

void enqueue(Stream& stream, Work work) {
  stream.todo.push_back(std::move(work));
  ++stream.given;
}

uint64_t now_ns() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::nanoseconds(now).count());
}

// The same work, told to the watcher.
Work watched(const Node& node) {
  int way = 0, kind = FAKE_CUDA_COPY;
  if (node.kind == Node::COPY_IN) way = 1;
  if (node.kind == Node::COPY_OUT) way = 2;
  if (node.kind == Node::COPY) way = 8;
  if (node.kind == Node::FILL) kind = FAKE_CUDA_FILL;
  if (node.kind == Node::KERNEL) kind = FAKE_CUDA_KERNEL;
  return [=, work = node.work, name = node.function == nullptr ? std::string() : node.function->name] {
    const uint64_t start = watcher == nullptr ? 0 : now_ns();
    work();
    if (watcher != nullptr) watcher(kind, way, name.c_str(), running->number, start, now_ns());
  };
}

int submit(Stream* handle, Node node) {
  if (lost != kOk) return lost;
  if (!has_context()) return kNoContext;
  Stream* stream = stream_of(handle);
  if (stream == nullptr) return kInvalidHandle;
  if (node.kind != Node::RECORD) node.work = watched(node);
  if (stream->capture != nullptr) {
    stream->capture->nodes.push_back(std::move(node));
    return kOk;
  }
  if (node.event != nullptr) *node.event = {stream, stream->given + 1, false, {}};
  enqueue(*stream, std::move(node.work));
  return kOk;
}

int allocate(Blocks& blocks, Address* out, size_t bytes, int device = 0) {
  if (!has_context()) return kNoContext;
  if (bytes == 0) return kInvalidValue;
  if (bytes > kMemory) return kOutOfMemory;
  void* memory = std::aligned_alloc(512, (bytes + 511) / 512 * 512);
  if (memory == nullptr) return kOutOfMemory;
  *out = number(memory);
  blocks[*out] = {bytes, device};
  return kOk;
}

int release(Blocks& blocks, Address memory) {
  if (!has_context()) return kNoContext;
  run_all();
  if (blocks.erase(memory) == 0) return kInvalidValue;
  std::free(host(memory));
  return kOk;
}

int twice_plus(const std::vector<uint64_t>& a, uint64_t threads) {
  const uint64_t n = std::min<uint64_t>(a[3], threads);
  if (!on_device(a[0], n * 8) || !on_device(a[1], n * 8)) return kIllegalAddress;
  const auto* in = static_cast<const int64_t*>(host(a[0]));
  auto* out = static_cast<int64_t*>(host(a[1]));
  for (uint64_t i = 0; i < n; ++i) out[i] = 2 * in[i] + static_cast<int64_t>(a[2]);
  return kOk;
}

int emulate(const Function& function, const std::vector<uint64_t>& a, unsigned blocks, unsigned threads,
            unsigned shared) {
  std::vector<void*> places;
  size_t word = 0;
  for (const size_t bytes : function.parameters) {
    places.push_back(const_cast<uint64_t*>(&a[word]));
    word += (bytes + 7) / 8;
  }
  const fake_gpu::Launch launch = function.launch;
  const char* fault = launch(places.data(), static_cast<int>(blocks), static_cast<int>(threads), shared, 0);
  if (*fault == '\0') return kOk;
  std::fprintf(stderr, "stand-in GPU: %s\n", fault);
  return kLaunchFailed;
}

// Another GPU or driver for a test: DEEPJIT_FAKE_CUDA="driver=12080 attribute38=1000000".
bool given(const std::string& name, int* value) {
  const char* text = std::getenv("DEEPJIT_FAKE_CUDA");
  const std::string all = text == nullptr ? "" : " " + std::string(text);
  const size_t at = all.find(" " + name + "=");
  if (at == std::string::npos) return false;
  *value = std::atoi(all.c_str() + at + name.size() + 2);
  return true;
}

}  // namespace

extern "C" {

fake_cuda_counts fake_cuda_take_counts() {
  const Lock lock(mutex);
  const fake_cuda_counts taken = counts;
  counts = {};
  return taken;
}
uint64_t fake_cuda_allocated() {
  const Lock lock(mutex);
  uint64_t bytes = 0;
  for (const auto& [address, block] : device_blocks) bytes += block.bytes;
  return bytes;
}
void* fake_cuda_allocate(size_t bytes, int kind) {
  const Lock lock(mutex);
  Address memory = 0;
  current.push_back(&the_context);
  allocate(kind == FAKE_CUDA_PINNED ? host_blocks : device_blocks, &memory, bytes, kind == FAKE_CUDA_ELSEWHERE ? 1 : 0);
  current.pop_back();
  return host(memory);
}
void fake_cuda_free(void* memory) {
  const Lock lock(mutex);
  run_all();
  if (device_blocks.erase(number(memory)) + host_blocks.erase(number(memory)) > 0) std::free(memory);
}
void fake_cuda_watch(fake_cuda_watcher wanted) {
  const Lock lock(mutex);
  watcher = wanted;
}
void* fake_cuda_stream() {
  const Lock lock(mutex);
  return make_stream();
}
void fake_cuda_write(void* to, const void* from, size_t bytes, void* stream) {
  const Lock lock(mutex);
  const auto* first = static_cast<const unsigned char*>(from);
  std::vector<unsigned char> data(first, first + bytes);
  enqueue(*stream_of(static_cast<Stream*>(stream)), [=] { std::memcpy(to, data.data(), data.size()); });
}
int fake_cuda_submit(void* stream, const char* name, void (*work)(void*), void* data) {
  const Lock lock(mutex);
  static std::map<std::string, Function>& functions = *new std::map<std::string, Function>;
  Function& function = functions[name];
  function.name = name;
  const auto run = [=] {
    ++counts.launches;
    work(data);
  };
  return submit(static_cast<Stream*>(stream), {Node::KERNEL, run, nullptr, &function});
}
void fake_cuda_finish(void* stream) {
  const Lock lock(mutex);
  Stream* own = stream_of(static_cast<Stream*>(stream));
  run_until(*own, own->given);
}

int cuInit(unsigned flags) { return flags == 0 ? kOk : kInvalidValue; }
int cuDriverGetVersion(int* version) {
  *version = 13000;
  given("driver", version);
  return kOk;
}
int cuGetErrorName(int error, const char** name) {
  return *name = error == kOutOfMemory ? "OUT_OF_MEMORY" : "ERROR", kOk;
}
int cuGetErrorString(int, const char** text) { return *text = "told by the stand-in driver", kOk; }
int cuDeviceGetCount(int* count) { return *count = 1, kOk; }
int cuDeviceGet(int* device, int number) { return *device = number, number == 0 ? kOk : 101; }
int cuDeviceGetName(char* name, int size, int) {
  return std::strncpy(name, "Stand-in", static_cast<size_t>(size)), kOk;
}
int cuDeviceGetAttribute(int* value, int attribute, int) {
  if (given("attribute" + std::to_string(attribute), value)) return kOk;
  switch (attribute) {
    case 1:
      return *value = 1024, kOk;
    case 13:
      return *value = 1'980'000, kOk;
    case 16:
      return *value = 132, kOk;
    case 36:
      return *value = 3'201'000, kOk;
    case 37:
      return *value = 6144, kOk;
    case 81:
      return *value = kShared + 1024, kOk;
    case 38:
      return *value = 50 << 20, kOk;
    case 75:
      return *value = 9, kOk;
    case 76:
      return *value = 0, kOk;
    case 97:
      return *value = kShared - 1024, kOk;
    default:
      return kInvalidValue;
  }
}
int cuDeviceTotalMem_v2(size_t* bytes, int) { return *bytes = kMemory, kOk; }
int cuDevicePrimaryCtxRetain(Context** context, int) {
  const Lock lock(mutex);
  return *context = &the_context, ++retained, kOk;
}
int cuDevicePrimaryCtxRelease_v2(int) {
  const Lock lock(mutex);
  return retained-- > 0 ? kOk : kInvalidValue;
}
int cuCtxPushCurrent_v2(Context* context) {
  const Lock lock(mutex);
  if (context != &the_context || retained == 0) return kNoContext;
  current.push_back(context);
  return current.size() < 8 ? kOk : kInvalidValue;  // a push without its pop
}
int cuCtxPopCurrent_v2(Context** context) {
  if (current.empty()) return kNoContext;
  *context = current.back();
  current.pop_back();
  return kOk;
}
int cuMemGetInfo_v2(size_t* free, size_t* total) {
  const Lock lock(mutex);
  if (!has_context()) return kNoContext;
  return *total = kMemory, *free = kMemory / 2 - fake_cuda_allocated(), kOk;
}
int cuMemAlloc_v2(Address* memory, size_t bytes) {
  const Lock lock(mutex);
  return allocate(device_blocks, memory, bytes);
}
int cuMemFree_v2(Address memory) {
  const Lock lock(mutex);
  return release(device_blocks, memory);
}
int cuMemAllocHost_v2(void** memory, size_t bytes) {
  const Lock lock(mutex);
  Address address = 0;
  const int result = allocate(host_blocks, &address, bytes);
  return *memory = host(address), result;
}
int cuMemFreeHost(void* memory) {
  const Lock lock(mutex);
  return release(host_blocks, number(memory));
}
int cuPointerGetAttributes(unsigned asked, int* which, void** answers, Address address) {
  const Lock lock(mutex);
  if (!has_context()) return kNoContext;
  const Block* own = block_of(device_blocks, address, 1);
  const bool pinned = block_of(host_blocks, address, 1) != nullptr;
  for (unsigned i = 0; i < asked; ++i) {
    if (which[i] == 2) {
      *static_cast<unsigned*>(answers[i]) = own != nullptr ? 2 : pinned ? 1 : 0;
    } else if (which[i] == 8) {
      *static_cast<unsigned char*>(answers[i]) = 0;  // the driver writes a bool
    } else if (which[i] == 9) {
      *static_cast<int*>(answers[i]) = own != nullptr ? own->device : pinned ? 0 : -2;
    } else {
      return kInvalidValue;
    }
  }
  return kOk;
}

// Memory that is not page-locked is read at the call and written before the
// return.
int cuMemcpyHtoDAsync_v2(Address to, const void* from, size_t bytes, Stream* stream) {
  const Lock lock(mutex);
  if (!on_device(to, bytes)) return kInvalidValue;
  counts.bytes_in += bytes;
  Node node{Node::COPY_IN, [=] { std::memcpy(host(to), from, bytes); }};
  const Stream* own = stream_of(stream);
  if (own != nullptr && own->capture == nullptr && block_of(host_blocks, number(from), bytes) == nullptr) {
    const auto* first = static_cast<const unsigned char*>(from);
    std::vector<unsigned char> data(first, first + bytes);
    node.work = [=] { std::memcpy(host(to), data.data(), bytes); };
  }
  return submit(stream, std::move(node));
}
int cuMemcpyDtoHAsync_v2(void* to, Address from, size_t bytes, Stream* stream) {
  const Lock lock(mutex);
  if (!on_device(from, bytes)) return kInvalidValue;
  counts.bytes_out += bytes;
  const int result = submit(stream, {Node::COPY_OUT, [=] { std::memcpy(to, host(from), bytes); }});
  Stream* own = stream_of(stream);
  if (result == kOk && own->capture == nullptr && block_of(host_blocks, number(to), bytes) == nullptr) {
    run_until(*own, own->given);
  }
  return result;
}
int cuMemcpyDtoDAsync_v2(Address to, Address from, size_t bytes, Stream* stream) {
  const Lock lock(mutex);
  if (!on_device(to, bytes) || !on_device(from, bytes)) return kInvalidValue;
  return submit(stream, {Node::COPY, [=] {
                           counts.bytes_within += bytes;
                           std::memmove(host(to), host(from), bytes);
                         }});
}
int cuMemsetD8Async(Address to, unsigned char value, size_t bytes, Stream* stream) {
  const Lock lock(mutex);
  if (!on_device(to, bytes)) return kInvalidValue;
  return submit(stream, {Node::FILL, [=] { std::memset(host(to), value, bytes); }});
}

int cuStreamCreate(Stream** stream, unsigned flags) {
  const Lock lock(mutex);
  if (!has_context() || flags != 1) return kInvalidValue;
  return *stream = make_stream(), kOk;
}
int cuStreamDestroy_v2(Stream* stream) {
  const Lock lock(mutex);
  if (streams.count(stream) == 0) return kInvalidHandle;
  run_until(*stream, stream->given);
  streams.erase(stream);
  for (Event* event : events) {
    if (event->stream == stream) event->stream = nullptr;
  }
  return delete stream, kOk;
}
int cuStreamSynchronize(Stream* handle) {
  const Lock lock(mutex);
  if (!has_context()) return kNoContext;
  Stream* stream = stream_of(handle);
  if (stream == nullptr) return kInvalidHandle;
  if (stream->capture != nullptr) return kCaptureUnsupported;
  run_until(*stream, stream->given);
  return lost;
}
int cuStreamWaitEvent(Stream* handle, Event* event, unsigned flags) {
  const Lock lock(mutex);
  if (!has_context() || flags != 0) return kInvalidValue;
  Stream* stream = stream_of(handle);
  if (stream == nullptr || events.count(event) == 0) return kInvalidHandle;
  if (stream->capture != nullptr) return kCaptureUnsupported;
  ++counts.waits;
  Stream* other = event->stream;
  const uint64_t ticket = event->ticket;
  if (other != nullptr && other != stream) {
    enqueue(*stream, [=] {
      if (other == &legacy || other == &per_thread || streams.count(other) != 0) run_until(*other, ticket);
    });
  }
  return lost;
}
int cuStreamBeginCapture_v2(Stream* handle, int mode) {
  const Lock lock(mutex);
  Stream* stream = stream_of(handle);
  if (!has_context() || mode != 1 || stream == nullptr || stream->capture != nullptr) return kInvalidValue;
  if (stream == &legacy) return kCaptureImplicit;
  ++counts.captures;
  return stream->capture = std::make_unique<Graph>(), lost;
}
int cuStreamEndCapture(Stream* handle, Graph** graph) {
  const Lock lock(mutex);
  Stream* stream = stream_of(handle);
  if (!has_context() || stream == nullptr || stream->capture == nullptr) return kInvalidValue;
  return *graph = stream->capture.release(), lost;
}

int cuEventCreate(Event** event, unsigned flags) {
  const Lock lock(mutex);
  if (!has_context() || flags != 0) return kInvalidValue;
  return *event = *events.insert(new Event).first, kOk;
}
int cuEventDestroy_v2(Event* event) {
  const Lock lock(mutex);
  if (events.erase(event) == 0) return kInvalidHandle;
  return delete event, kOk;
}
int cuEventRecordWithFlags(Event* event, Stream* handle, unsigned flags) {
  const Lock lock(mutex);
  const Stream* stream = stream_of(handle);
  if (events.count(event) == 0) return kInvalidHandle;
  if (stream != nullptr && (stream->capture != nullptr) != (flags == 1)) return kInvalidValue;
  return submit(handle, {Node::RECORD, [=] { reach(event); }, event});
}
int cuEventSynchronize(Event* event) {
  const Lock lock(mutex);
  if (!has_context()) return kNoContext;
  if (events.count(event) == 0) return kInvalidHandle;
  if (event->stream != nullptr) run_until(*event->stream, event->ticket);
  return lost;
}
int cuEventElapsedTime(float* ms, Event* from, Event* to) {
  const Lock lock(mutex);
  for (const Event* event : {from, to}) {
    if (event->ticket == 0) return kInvalidHandle;
    if (!event->reached) return kNotReady;
  }
  return *ms = std::chrono::duration<float, std::milli>(to->at - from->at).count(), kOk;
}

int cuModuleLoadDataEx(Module** module, const void* image, unsigned count, int* options, void** values) {
  if (!has_context()) return kNoContext;
  if (std::memcmp(image, ".version", 8) == 0) {
    *module = new Module;
    return (*module)->functions["twice_plus"], kOk;
  }
  const auto* text = static_cast<const char*>(image);
  if (std::strncmp(text, fake_gpu::kMagic, std::strlen(fake_gpu::kMagic)) != 0) return kInvalidImage;
  char* code = nullptr;
  const long target = std::strtol(text + std::strlen(fake_gpu::kMagic), &code, 10);
  int major = 0, minor = 0;
  cuDeviceGetAttribute(&major, 75, 0);
  cuDeviceGetAttribute(&minor, 76, 0);
  if (target / 10 != major || target % 10 > minor) return kNoBinary;
  std::string log;
  const std::string file = fake_gpu::library_of(std::strchr(code, '\n') + 1, log);  // past the "a" of sm_90a
  void* library = file.empty() ? nullptr : dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    if (count == 2 && options[0] == 5) std::snprintf(static_cast<char*>(values[0]), 512, "%s", log.c_str());
    return kInvalidImage;
  }
  return *module = new Module{library, {}}, kOk;
}
int cuModuleUnload(Module* module) {
  const Lock lock(mutex);
  if (!has_context()) return kNoContext;
  run_all();
  if (module->library != nullptr) dlclose(module->library);
  return delete module, kOk;
}
int cuModuleGetFunction(Function** function, Module* module, const char* name) {
  const Lock lock(mutex);
  if (module->library != nullptr && module->functions.count(name) == 0) {
    const std::string n = name;
    const auto* parameters = static_cast<const int*>(dlsym(module->library, ("parameters_" + n).c_str()));
    void* launch = dlsym(module->library, ("launch_" + n).c_str());
    if (parameters != nullptr && launch != nullptr) {
      Function& own = module->functions[n];
      own.name = n;
      own.parameters.clear();
      for (const int* size = parameters; *size != 0; ++size) own.parameters.push_back(static_cast<size_t>(*size));
      own.launch = reinterpret_cast<fake_gpu::Launch>(launch);
    }
  }
  const auto found = module->functions.find(name);
  return found == module->functions.end() ? kNotFound : (*function = &found->second, kOk);
}
int cuFuncSetAttribute(Function* function, int attribute, int value) {
  const Lock lock(mutex);
  if (!has_context() || attribute != 8 || value > kShared - 1024) return kInvalidValue;
  return function->shared = value, kOk;
}
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, Function* function, int threads, size_t shared) {
  const Lock lock(mutex);
  if (!has_context() || threads <= 0) return kInvalidValue;
  if (shared > static_cast<size_t>(function->shared)) return kInvalidValue;
  const int by_shared = kShared / (static_cast<int>(shared) + 1024);
  return *blocks = std::min(2048 / threads, by_shared), kOk;
}
int cuLaunchKernel(Function* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, Stream* stream, void** arguments, void** extra) {
  const Lock lock(mutex);
  if (gx == 0 || bx == 0 || gy * gz * by * bz != 1 || extra != nullptr) return kInvalidValue;
  if (static_cast<int>(shared) > function->shared) return kInvalidValue;
  std::vector<uint64_t> a;
  for (const size_t bytes : function->parameters) {  // at the call, as the driver does
    const size_t first = a.size();
    a.resize(first + (bytes + 7) / 8);
    std::memcpy(&a[first], *arguments++, bytes);
  }
  const auto work = [=, own = *function] {
    ++counts.launches;
    if (lost == kOk) lost = own.launch == nullptr ? twice_plus(a, uint64_t{gx} * bx) : emulate(own, a, gx, bx, shared);
  };
  return submit(stream, {Node::KERNEL, work, nullptr, function});
}

// In the form that the emulation reads.
int cuTensorMapEncodeTiled(void* map, int type, unsigned rank, void* address, const uint64_t* dims,
                           const uint64_t* pitches, const unsigned* box, const unsigned* steps, int interleave,
                           int swizzle, int, int fill) {
  const auto at = reinterpret_cast<uintptr_t>(address);
  const bool fits = reinterpret_cast<uintptr_t>(map) % 64 == 0 && type == 1 && rank == 2 && at % 16 == 0 &&
                    pitches[0] % 16 == 0 && box[0] == 64 && box[1] > 0 && box[1] <= 256 && steps[0] == 1 &&
                    steps[1] == 1 && interleave == 0 && swizzle == 3 && fill == 0 && dims[0] > 0 && dims[1] > 0;
  if (!fits) return kInvalidValue;
  const uint64_t words[16] = {at, dims[1], dims[0], pitches[0], box[1]};
  return std::memcpy(map, words, sizeof(words)), kOk;
}
int cuGraphInstantiateWithFlags(Graph** exec, Graph* graph, unsigned long long flags) {
  const Lock lock(mutex);
  ++counts.graphs_made;
  return *exec = new Graph(*graph), flags == 0 ? kOk : kInvalidValue;
}
int cuGraphExecUpdate_v2(Graph* exec, Graph* graph, void* result) {
  const Lock lock(mutex);
  if (!has_context() || result == nullptr) return kInvalidValue;
  const bool same = std::equal(
      exec->nodes.begin(), exec->nodes.end(), graph->nodes.begin(), graph->nodes.end(),
      [](const Node& a, const Node& b) { return a.kind == b.kind && a.function == b.function && a.event == b.event; });
  if (!same) return kUpdateFailure;
  ++counts.graphs_updated;
  return exec->nodes = graph->nodes, kOk;
}
// What is under way keeps the nodes that it was launched with.
int cuGraphLaunch(Graph* exec, Stream* handle) {
  const Lock lock(mutex);
  if (lost != kOk) return lost;
  if (!has_context()) return kNoContext;
  Stream* stream = stream_of(handle);
  if (stream == nullptr) return kInvalidHandle;
  if (stream->capture != nullptr) return kCaptureImplicit;
  ++counts.graphs_launched;
  for (const Node& node : exec->nodes) {
    if (node.event != nullptr) *node.event = {stream, stream->given + 1, false, {}};
  }
  enqueue(*stream, [nodes = exec->nodes] {
    for (const Node& node : nodes) node.work();
  });
  return kOk;
}
int cuGraphUpload(Graph* exec, Stream* handle) {
  const Lock lock(mutex);
  if (!has_context() || exec == nullptr) return kInvalidValue;
  const Stream* stream = stream_of(handle);
  if (stream == nullptr) return kInvalidHandle;
  if (stream->capture != nullptr) return kCaptureUnsupported;
  return ++counts.graphs_uploaded, lost;
}
int cuGraphDestroy(Graph* graph) { return delete graph, kOk; }
int cuGraphExecDestroy(Graph* exec) { return delete exec, kOk; }

}  // extern "C"
