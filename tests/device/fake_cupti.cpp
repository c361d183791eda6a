// A stand-in for libcupti over the stand-in driver (fake_cuda.cpp), which tells it what it ran. Records lie in the
// caller's buffers as CUPTI's do, in pieces of different sizes, and some of them are of kinds that nobody asked for.
//
// DEEPJIT_FAKE_CUPTI makes it misbehave: "unknown" is a version of the future, "refuses" records nothing, "renamed"
// gives kernels of graphs other names each time, "misses" leaves every 40th record out.
#include <dlfcn.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "fake_cuda.h"

namespace {

constexpr int kOk = 0, kInvalidOperation = 7, kMaxLimit = 12, kNotSupported = 39;
constexpr size_t kKernelBytes = 224, kCopyBytes = 96, kOtherBytes = 40;

using Request = void (*)(uint8_t**, size_t*, size_t*);
using Complete = void (*)(void*, uint32_t, uint8_t*, size_t, size_t);

std::mutex mutex;
Request request = nullptr;
Complete complete = nullptr;
std::set<int> enabled;
std::vector<std::vector<uint8_t>> waiting;
std::set<std::string> names;
uint64_t seen = 0;

bool is(const char* way) {
  const char* wanted = std::getenv("DEEPJIT_FAKE_CUPTI");
  return wanted != nullptr && std::string(wanted) == way;
}

template <typename T>
void put(std::vector<uint8_t>& record, size_t offset, T value) {
  std::memcpy(record.data() + offset, &value, sizeof value);
}

void watch(int kind, int way, const char* name, uint32_t stream, uint64_t start_ns, uint64_t end_ns) {
  const std::lock_guard<std::mutex> lock(mutex);
  ++seen;
  if (enabled.count(kind) == 0 || (is("misses") && seen % 40 == 0)) return;
  std::vector<uint8_t> record(kind == FAKE_CUDA_KERNEL ? kKernelBytes : kCopyBytes, 0xee);
  put<int>(record, 0, kind);
  put<uint64_t>(record, 16, start_ns);
  put<uint64_t>(record, 24, end_ns);
  if (kind == FAKE_CUDA_KERNEL) {
    const std::string told = is("renamed") ? std::string(name) + std::to_string(seen) : name;
    put<uint32_t>(record, 48, stream);
    put<const char*>(record, 104, names.insert(told).first->c_str());
  } else {
    put<uint8_t>(record, 4, static_cast<uint8_t>(way));
    put<uint64_t>(record, 8, 0);
    put<uint32_t>(record, 40, stream);
  }
  waiting.push_back(std::move(record));
  std::vector<uint8_t> other(kOtherBytes, 0xee);
  put<int>(other, 0, 38);
  waiting.push_back(std::move(other));
}

}  // namespace

extern "C" {

int cuptiGetVersion(uint32_t* version) { return *version = is("unknown") ? 990000 : 130000, kOk; }
int cuptiGetTimestamp(uint64_t* ns) {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return *ns = static_cast<uint64_t>(std::chrono::nanoseconds(now).count()), kOk;
}
int cuptiActivityRegisterCallbacks(Request r, Complete c) {
  if (r == nullptr || c == nullptr) return 1;
  void* driver = dlopen(std::getenv("DEEPJIT_CUDA_DRIVER"), RTLD_NOW | RTLD_LOCAL);
  if (driver == nullptr) return kInvalidOperation;
  reinterpret_cast<decltype(&fake_cuda_watch)>(dlsym(driver, "fake_cuda_watch"))(watch);
  const std::lock_guard<std::mutex> lock(mutex);
  return request = r, complete = c, kOk;
}
int cuptiActivityEnable(int kind) {
  if (is("refuses")) return kNotSupported;
  const std::lock_guard<std::mutex> lock(mutex);
  return enabled.insert(kind), kOk;
}
int cuptiActivityDisable(int kind) {
  const std::lock_guard<std::mutex> lock(mutex);
  return enabled.erase(kind), kOk;
}
int cuptiActivityFlushAll(uint32_t) {
  std::vector<std::vector<uint8_t>> records;
  {
    const std::lock_guard<std::mutex> lock(mutex);
    if (complete == nullptr) return kInvalidOperation;
    records.swap(waiting);
  }
  for (size_t i = 0; i < records.size();) {
    uint8_t* buffer = nullptr;
    size_t bytes = 0, most = 0, used = 0;
    request(&buffer, &bytes, &most);
    if (buffer == nullptr) return kMaxLimit;
    for (size_t n = 0; i < records.size() && used + records[i].size() <= bytes && n < 7; ++i, ++n) {
      std::memcpy(buffer + used, records[i].data(), records[i].size());
      used += records[i].size();
    }
    complete(nullptr, 0, buffer, bytes, used);
  }
  return kOk;
}
int cuptiActivityGetNextRecord(uint8_t* buffer, size_t valid, uint8_t** record) {
  uint8_t* next = buffer;
  if (*record != nullptr) {
    int kind = 0;
    std::memcpy(&kind, *record, sizeof kind);
    next = *record + (kind == FAKE_CUDA_KERNEL ? kKernelBytes : kind == 38 ? kOtherBytes : kCopyBytes);
  }
  if (next >= buffer + valid) return kMaxLimit;
  return *record = next, kOk;
}
int cuptiActivityGetNumDroppedRecords(void*, uint32_t, size_t* dropped) { return *dropped = 0, kOk; }

}  // extern "C"
