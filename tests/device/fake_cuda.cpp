// A stand-in for libcuda.so.1 over host memory: it lets the CUDA device's own code run on machines without a GPU. It
// knows one kernel of its own, twice_plus, and runs what the stand-in compiler (fake_nvrtc.cpp) made of CUDA text. It
// is as strict as the driver about current contexts, handles and captures.
//
// A stream is as lazy as a driver may be: its work waits until somebody waits for it. So whoever reads results too
// early sees stale ones, and whoever changes what a copy will read too early spoils it.
#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "fake_code.h"

namespace {

constexpr int kOk = 0, kInvalidValue = 1, kOutOfMemory = 2, kNoContext = 201, kInvalidImage = 200, kInvalidHandle = 400,
              kNotFound = 500, kNotReady = 600, kLaunchFailed = 719, kCaptureUnsupported = 900, kCaptureImplicit = 901;
constexpr size_t kMemory = size_t{8} << 30;
constexpr int kShared = 232448;

struct Context {
} the_context;
int retained = 0;
thread_local std::vector<Context*> current;
std::mutex mutex;
std::set<void*> device_blocks, host_blocks;

using Work = std::function<void()>;
struct Graph {
  std::vector<Work> nodes;
};
struct Stream {
  Graph* capture = nullptr;
  std::vector<Work> waiting;
};
struct Event {
  bool recorded = false;
  int waiting = 0;  // records that a stream has not come to
  std::chrono::steady_clock::time_point at;
};
struct Function {
  int shared = 48 << 10;
  size_t parameters = 4;
  fake_gpu::Launch launch = nullptr;  // nullptr: twice_plus
};
struct Module {
  void* library = nullptr;  // nullptr: of twice_plus
  std::map<std::string, std::unique_ptr<Function>> functions;
};

std::recursive_mutex work_mutex;  // one thread at a time makes the GPU work; kernels have variables of their own
std::set<Stream*> streams;
int failure = kOk;  // of a kernel: the context is then lost

void drain(Stream* stream) {
  const std::lock_guard<std::recursive_mutex> lock(work_mutex);
  const std::vector<Work> work = std::move(stream->waiting);
  stream->waiting.clear();
  for (const Work& item : work) item();
}

void drain_all() {
  const std::lock_guard<std::recursive_mutex> lock(work_mutex);
  for (Stream* stream : streams) drain(stream);
}

bool has_context() { return !current.empty() && current.back() == &the_context && retained > 0; }

int submit(Stream* stream, Work work) {
  if (!has_context()) return kNoContext;
  if (stream == nullptr) return kInvalidHandle;
  const std::lock_guard<std::recursive_mutex> lock(work_mutex);
  if (stream->capture != nullptr)
    stream->capture->nodes.push_back(std::move(work));
  else
    stream->waiting.push_back(std::move(work));
  return failure;
}

int allocate(std::set<void*>& blocks, void** out, size_t bytes) {
  if (!has_context()) return kNoContext;
  if (bytes == 0) return kInvalidValue;
  if (bytes > kMemory) return kOutOfMemory;
  *out = std::aligned_alloc(512, (bytes + 511) / 512 * 512);
  if (*out == nullptr) return kOutOfMemory;
  const std::lock_guard<std::mutex> lock(mutex);
  blocks.insert(*out);
  return kOk;
}

int release(std::set<void*>& blocks, void* memory) {
  if (!has_context()) return kNoContext;
  drain_all();
  const std::lock_guard<std::mutex> lock(mutex);
  if (blocks.erase(memory) == 0) return kInvalidValue;
  std::free(memory);
  return kOk;
}

void* host(unsigned long long address) { return reinterpret_cast<void*>(address); }

}  // namespace

extern "C" {

int cuInit(unsigned flags) { return flags == 0 ? kOk : kInvalidValue; }
int cuDriverGetVersion(int* version) { return *version = 13000, kOk; }
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
  switch (attribute) {
    case 1:
      return *value = 1024, kOk;
    case 16:
      return *value = 132, kOk;
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
int cuDevicePrimaryCtxRetain(Context** context, int) { return *context = &the_context, ++retained, kOk; }
int cuDevicePrimaryCtxRelease_v2(int) { return retained-- > 0 ? kOk : kInvalidValue; }
int cuCtxPushCurrent_v2(Context* context) {
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
  if (!has_context()) return kNoContext;
  return *total = kMemory, *free = kMemory / 2, kOk;
}
int cuMemAlloc_v2(unsigned long long* memory, size_t bytes) {
  void* block = nullptr;
  const int result = allocate(device_blocks, &block, bytes);
  *memory = reinterpret_cast<unsigned long long>(block);
  return result;
}
int cuMemFree_v2(unsigned long long memory) { return release(device_blocks, host(memory)); }
int cuMemAllocHost_v2(void** memory, size_t bytes) { return allocate(host_blocks, memory, bytes); }
int cuMemFreeHost(void* memory) { return release(host_blocks, memory); }
int cuMemcpyHtoDAsync_v2(unsigned long long to, const void* from, size_t bytes, Stream* stream) {
  return submit(stream, [=] { std::memcpy(host(to), from, bytes); });
}
int cuMemcpyDtoHAsync_v2(void* to, unsigned long long from, size_t bytes, Stream* stream) {
  return submit(stream, [=] { std::memcpy(to, host(from), bytes); });
}
int cuMemcpyDtoDAsync_v2(unsigned long long to, unsigned long long from, size_t bytes, Stream* stream) {
  return submit(stream, [=] { std::memmove(host(to), host(from), bytes); });
}
int cuMemsetD8Async(unsigned long long to, unsigned char value, size_t bytes, Stream* stream) {
  return submit(stream, [=] { std::memset(host(to), value, bytes); });
}
int cuStreamCreate(Stream** stream, unsigned flags) {
  if (!has_context() || flags != 1) return kInvalidValue;
  *stream = new Stream;
  const std::lock_guard<std::recursive_mutex> lock(work_mutex);
  return streams.insert(*stream), kOk;
}
int cuStreamDestroy_v2(Stream* stream) {
  drain(stream);
  const std::lock_guard<std::recursive_mutex> lock(work_mutex);
  return streams.erase(stream), delete stream, kOk;
}
int cuStreamSynchronize(Stream* stream) {
  if (!has_context()) return kNoContext;
  if (stream->capture != nullptr) return kCaptureUnsupported;
  return drain(stream), failure;
}
int cuStreamBeginCapture_v2(Stream* stream, int mode) {
  if (!has_context() || mode != 1 || stream->capture != nullptr) return kInvalidValue;
  return stream->capture = new Graph, kOk;
}
int cuStreamEndCapture(Stream* stream, Graph** graph) {
  if (!has_context() || stream->capture == nullptr) return kInvalidValue;
  *graph = stream->capture;
  stream->capture = nullptr;
  return kOk;
}
int cuEventCreate(Event** event, unsigned flags) {
  if (!has_context() || flags != 0) return kInvalidValue;
  return *event = new Event, kOk;
}
int cuEventDestroy_v2(Event* event) { return delete event, kOk; }
int cuEventRecordWithFlags(Event* event, Stream* stream, unsigned flags) {
  if (stream != nullptr && (stream->capture != nullptr) != (flags == 1)) return kInvalidValue;
  const bool captured = flags == 1;
  if (!captured) ++event->waiting;
  return submit(stream, [=] {
    if (!captured) --event->waiting;
    event->recorded = true;
    event->at = std::chrono::steady_clock::now();
  });
}
int cuEventElapsedTime(float* ms, Event* from, Event* to) {
  if (from->waiting > 0 || to->waiting > 0) return kNotReady;
  if (!from->recorded || !to->recorded) return kInvalidHandle;
  return *ms = std::chrono::duration<float, std::milli>(to->at - from->at).count(), kOk;
}
int cuModuleLoadDataEx(Module** module, const void* image, unsigned count, int* options, void** values) {
  if (!has_context()) return kNoContext;
  if (std::memcmp(image, ".version", 8) == 0) {
    *module = new Module;
    return (*module)->functions["twice_plus"] = std::make_unique<Function>(), kOk;
  }
  const auto* text = static_cast<const char*>(image);
  if (std::strncmp(text, fake_gpu::kMagic, std::strlen(fake_gpu::kMagic)) != 0) return kInvalidImage;
  std::string log;
  const std::string file = fake_gpu::library_of(text + std::strlen(fake_gpu::kMagic), log);
  void* library = file.empty() ? nullptr : dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    if (count == 2 && options[0] == 5) std::snprintf(static_cast<char*>(values[0]), 512, "%s", log.c_str());
    return kInvalidImage;
  }
  return *module = new Module{library, {}}, kOk;
}
int cuModuleUnload(Module* module) {
  if (!has_context()) return kNoContext;
  drain_all();
  if (module->library != nullptr) dlclose(module->library);
  return delete module, kOk;
}
int cuModuleGetFunction(Function** function, Module* module, const char* name) {
  std::unique_ptr<Function>& own = module->functions[name];
  if (own == nullptr && module->library != nullptr) {
    const std::string n = name;
    const auto* parameters = static_cast<const int*>(dlsym(module->library, ("parameters_" + n).c_str()));
    void* launch = dlsym(module->library, ("launch_" + n).c_str());
    if (parameters != nullptr && launch != nullptr) {
      own = std::make_unique<Function>();
      own->parameters = static_cast<size_t>(*parameters);
      own->launch = reinterpret_cast<fake_gpu::Launch>(launch);
    }
  }
  return own == nullptr ? kNotFound : (*function = own.get(), kOk);
}
int cuFuncSetAttribute(Function* function, int attribute, int value) {
  if (!has_context() || attribute != 8 || value > kShared - 1024) return kInvalidValue;
  return function->shared = value, kOk;
}
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, Function* function, int threads, size_t shared) {
  if (!has_context() || threads <= 0) return kInvalidValue;
  if (shared > static_cast<size_t>(function->shared)) return kInvalidValue;
  const int by_shared = kShared / (static_cast<int>(shared) + 1024);
  return *blocks = std::min(2048 / threads, by_shared), kOk;
}
int cuLaunchKernel(Function* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, Stream* stream, void** arguments, void** extra) {
  if (gx == 0 || bx == 0 || gy * gz * by * bz != 1 || extra != nullptr) return kInvalidValue;
  if (static_cast<int>(shared) > function->shared) return kInvalidValue;
  std::vector<uint64_t> a(function->parameters);
  for (size_t i = 0; i < a.size(); ++i) std::memcpy(&a[i], arguments[i], 8);  // at the call, as the driver does
  if (function->launch == nullptr) {
    const uint64_t n = std::min<uint64_t>(a[3], uint64_t{gx} * bx);
    return submit(stream, [=] {
      const auto* in = static_cast<const int64_t*>(host(a[0]));
      auto* out = static_cast<int64_t*>(host(a[1]));
      for (uint64_t i = 0; i < n; ++i) out[i] = 2 * in[i] + static_cast<int64_t>(a[2]);
    });
  }
  return submit(stream, [=] {
    std::vector<void*> places;
    for (const uint64_t& argument : a) places.push_back(const_cast<uint64_t*>(&argument));
    const char* fault = function->launch(places.data(), static_cast<int>(gx), static_cast<int>(bx), shared, 0);
    if (*fault == '\0') return;
    std::fprintf(stderr, "stand-in GPU: %s\n", fault);
    failure = kLaunchFailed;
  });
}
int cuGraphInstantiateWithFlags(Graph** exec, Graph* graph, unsigned long long flags) {
  return *exec = new Graph(*graph), flags == 0 ? kOk : kInvalidValue;
}
int cuGraphLaunch(Graph* exec, Stream* stream) {
  if (!has_context()) return kNoContext;
  if (stream->capture != nullptr) return kCaptureImplicit;
  const std::lock_guard<std::recursive_mutex> lock(work_mutex);
  stream->waiting.insert(stream->waiting.end(), exec->nodes.begin(), exec->nodes.end());
  return failure;
}
int cuGraphDestroy(Graph* graph) { return delete graph, kOk; }
int cuGraphExecDestroy(Graph* exec) { return delete exec, kOk; }

}  // extern "C"
