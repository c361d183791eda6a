#include "profile/cupti/recorder.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "base/error.h"

namespace deepjit::profile::cupti {

namespace {

constexpr int kKinds[] = {kKernelKind, kCopyKind, kSetKind};
constexpr size_t kBufferBytes = size_t{4} << 20;
constexpr uint32_t kForced = 1;

// CUPTI calls back without anything of ours: what comes back is kept here.
struct Shared {
  std::mutex mutex;
  const Library* library = nullptr;
  bool recording = false;
  std::vector<Activity> activities;
  size_t dropped = 0;
};

Shared& shared() {
  static Shared* all = new Shared;  // CUPTI may call at the end of the process
  return *all;
}

void request_buffer(uint8_t** buffer, size_t* bytes, size_t* most_records) {
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(64, kBufferBytes));
  *bytes = *buffer == nullptr ? 0 : kBufferBytes;
  *most_records = 0;
}

void complete_buffer(void* context, uint32_t stream, uint8_t* buffer, size_t, size_t valid_bytes) {
  Shared& all = shared();
  const std::lock_guard<std::mutex> lock(all.mutex);
  uint8_t* record = nullptr;
  while (valid_bytes > 0 && all.library->next_record(buffer, valid_bytes, &record) == kSuccess) {
    Activity activity;
    if (all.recording && read_record(record, activity)) all.activities.push_back(std::move(activity));
  }
  size_t dropped = 0;
  if (all.library->dropped_records(context, stream, &dropped) == kSuccess) all.dropped += dropped;
  std::free(buffer);
}

template <typename T>
T field(const uint8_t* record, size_t offset) {
  T value;
  std::memcpy(&value, record + offset, sizeof value);
  return value;
}

const Library& found() {
  std::string why;
  const Library* library = find_library(why);
  if (library == nullptr) throw Error(Code::LIBRARY_MISSING, why);
  return *library;
}

// Registers once a process.
void connect(const Library& library) {
  Shared& all = shared();
  const std::lock_guard<std::mutex> lock(all.mutex);
  if (all.recording) throw Error(Code::STATE, "CUPTI is recording already");
  if (all.library == nullptr) {
    all.library = &library;
    if (const Result r = library.register_callbacks(request_buffer, complete_buffer); r != kSuccess) {
      all.library = nullptr;
      throw Error(Code::STATE, "CUPTI takes no callbacks (its error " + std::to_string(r) + ")");
    }
  }
  all.recording = true;
}

void disconnect(const Library& library) {
  for (int kind : kKinds) library.disable(kind);
  library.flush_all(kForced);
  Shared& all = shared();
  const std::lock_guard<std::mutex> lock(all.mutex);
  all.recording = false;
  all.activities.clear();
}

}  // namespace

bool read_record(const uint8_t* record, Activity& activity) {
  const int kind = field<int>(record, kKind);
  if (kind != kKernelKind && kind != kCopyKind && kind != kSetKind) return false;
  activity.start_ns = field<uint64_t>(record, kStart);
  activity.end_ns = field<uint64_t>(record, kEnd);
  activity.kind = kind == kKernelKind ? Activity::Kind::KERNEL
                  : kind == kCopyKind ? Activity::Kind::COPY
                                      : Activity::Kind::SET;
  activity.stream = field<uint32_t>(record, kind == kKernelKind ? kKernelStream : kCopyStream);
  if (kind == kCopyKind) activity.way = field<uint8_t>(record, kCopyWay);
  if (kind == kKernelKind) {
    const char* name = field<const char*>(record, kKernelName);
    activity.name = name == nullptr ? "" : name;
  }
  return true;
}

Recorder::Recorder() : library_(found()) {
  connect(library_);
  for (int kind : kKinds) {
    if (const Result r = library_.enable(kind); r != kSuccess) {
      disconnect(library_);
      throw Error(Code::STATE, "CUPTI does not record here (its error " + std::to_string(r) + ")");
    }
  }
}

Recorder::~Recorder() { disconnect(library_); }

std::vector<Activity> Recorder::take() {
  if (const Result r = library_.flush_all(kForced); r != kSuccess) {
    throw Error(Code::STATE, "CUPTI does not give its records (its error " + std::to_string(r) + ")");
  }
  Shared& all = shared();
  const std::lock_guard<std::mutex> lock(all.mutex);
  if (all.dropped > 0) throw Error(Code::STATE, "CUPTI dropped records");
  std::vector<Activity> taken = std::move(all.activities);
  all.activities.clear();
  std::stable_sort(taken.begin(), taken.end(),
                   [](const Activity& a, const Activity& b) { return a.start_ns < b.start_ns; });
  return taken;
}

uint64_t Recorder::now_ns() const {
  uint64_t ns = 0;
  library_.get_timestamp(&ns);
  return ns;
}

}  // namespace deepjit::profile::cupti
