// A stand-in for libcudnn.so.9 on the stand-in driver (fake_cuda.cpp): it takes operation graphs through the backend
// interface, proposes engines, "compiles" and saves plans, and computes them in plain loops over host memory.
//
// Engines 0, 1 and 2 are the same; engine 3 is proposed and then turns out not to be supported. It knows convolutions,
// matrix products and the pointwise operations that tests use; any other graph is not supported.
#include "fake_cudnn.h"

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "fake_cuda.h"
#include "fake_graphs.h"

namespace {

using namespace fake_cudnn;

constexpr int kOk = 0, kBadParam = 2000, kNotSupported = 3000, kInternal = 4000;
// What an Object of the interface points to. The library copies what objects are set to.
struct Holder {
  Shared descriptor;
};
struct Handle {
  std::mutex used;
  void* stream = nullptr;
};

std::mutex mutex;
std::condition_variable changed;
fake_cudnn_counts counts;
uint64_t under_way = 0;
bool company = false;
thread_local std::string last_error;

int fail(int status, const char* words) { return last_error = words, status; }

size_t size_of(int type) {
  switch (type) {
    case 2:
    case 24:
      return 1;
    case 0:
    case 3:
    case 5:
    case 6:
    case kObject:
      return 8;
    default:
      return 4;
  }
}

// Marks a handle as in use, and tells when somebody else does so at the same time.
class Use {
 public:
  explicit Use(Handle* handle) : handle_(handle), alone_(handle == nullptr || handle->used.try_lock()) {
    if (alone_) return;
    const std::lock_guard<std::mutex> lock(mutex);
    ++counts.clashes;
  }
  ~Use() {
    if (alone_ && handle_ != nullptr) handle_->used.unlock();
  }

 private:
  Handle* handle_;
  bool alone_;
};

using Ints = std::vector<int64_t>;

Shared make_config(const Shared& graph, int64_t engine) {
  auto made = std::make_shared<Descriptor>(Descriptor{ENGINE, true, {}});
  made->put_int(1301, 3, engine);
  made->attributes[1300] = {kObject, 1, {}, {graph}};
  auto knob = std::make_shared<Descriptor>(Descriptor{KNOB, true, {}});
  knob->put_int(600, 9, 2, 4);
  knob->put_int(601, 3, 10 + engine);
  auto config = std::make_shared<Descriptor>(Descriptor{CONFIG, true, {}});
  config->attributes[300] = {kObject, 1, {}, {made}};
  config->attributes[302] = {kObject, 1, {}, {knob}};
  return config;
}

int propose(Descriptor& heuristics) {
  const Shared& graph = heuristics.objects(201).at(0);
  if (!is_known(*graph)) return fail(kNotSupported, "no engine for this graph");
  Attribute results{kObject, 0, {}, {}};
  const int mode = heuristics.one<int>(200);
  for (int64_t engine : mode == 3 ? Ints{0, 3, 1} : Ints{0, 2}) results.objects.push_back(make_config(graph, engine));
  results.count = static_cast<int64_t>(results.objects.size());
  heuristics.attributes[202] = std::move(results);
  return kOk;
}

// "plan 2" and behind it the graph, by its address: plans are saved and loaded by one process.
std::map<std::string, Shared>& saved_graphs() {
  static auto& all = *new std::map<std::string, Shared>;
  return all;
}

int compile(Descriptor& plan) {
  const Use use(plan.one<Handle*>(400));
  plan.put_int(402, 3, 0);
  if (plan.attributes.count(405) != 0) {
    const std::lock_guard<std::mutex> lock(mutex);
    const Attribute& text = plan.attributes[405];
    const auto found = saved_graphs().find({text.bytes.begin(), text.bytes.end()});
    if (found == saved_graphs().end()) return fail(kNotSupported, "a plan of another process");
    ++counts.plans_loaded;
    plan.attributes[0] = {kObject, 1, {}, {found->second}};
    return kOk;
  }
  const Descriptor& engine = plan.object(401).object(300);
  std::unique_lock<std::mutex> lock(mutex);
  ++counts.plans_made;
  counts.most_at_once = std::max(counts.most_at_once, ++under_way);
  changed.notify_all();
  if (company) changed.wait_for(lock, std::chrono::seconds(5), [] { return counts.most_at_once >= 2; });
  --under_way;
  const auto number = engine.one<int64_t>(1301);
  if (number == 3) return fail(kNotSupported, "not on this GPU");
  const Shared& graph = engine.objects(1300).at(0);
  const std::string text =
      "plan " + std::to_string(number) + " " + std::to_string(reinterpret_cast<uintptr_t>(graph.get()));
  saved_graphs()[text] = graph;
  plan.attributes[405] = {24, static_cast<int64_t>(text.size()), {text.begin(), text.end()}, {}};
  plan.attributes[0] = {kObject, 1, {}, {graph}};
  return kOk;
}

struct Job {
  Shared graph;
  std::map<int64_t, char*> memory;
};

void work(void* data) {
  const auto* job = static_cast<const Job*>(data);
  run_graph(*job->graph, job->memory);
}

decltype(&fake_cuda_submit) submit_function() {
  static const auto found = reinterpret_cast<decltype(&fake_cuda_submit)>(
      dlsym(dlopen(std::getenv("DEEPJIT_CUDA_DRIVER"), RTLD_NOW | RTLD_LOCAL), "fake_cuda_submit"));
  return found;
}

}  // namespace

extern "C" {

fake_cudnn_counts fake_cudnn_take_counts() {
  const std::lock_guard<std::mutex> lock(mutex);
  const fake_cudnn_counts taken = counts;
  counts = {};
  return taken;
}
void fake_cudnn_wait_for_company(int wanted) {
  const std::lock_guard<std::mutex> lock(mutex);
  company = wanted != 0;
}

size_t cudnnGetVersion() { return 91900; }
const char* cudnnGetErrorString(int status) { return status == kNotSupported ? "NOT_SUPPORTED" : "BAD_PARAM"; }
void cudnnGetLastErrorString(char* text, size_t size) { std::strncpy(text, last_error.c_str(), size); }
int cudnnCreate(Handle** handle) {
  const std::lock_guard<std::mutex> lock(mutex);
  return ++counts.handles, *handle = new Handle, kOk;
}
int cudnnDestroy(Handle* handle) { return delete handle, kOk; }
int cudnnSetStream(Handle* handle, void* stream) {
  const Use use(handle);
  return handle->stream = stream, kOk;
}

int cudnnBackendCreateDescriptor(int type, void** object) {
  return *object = new Holder{std::make_shared<Descriptor>(Descriptor{type, false, {}})}, kOk;
}
int cudnnBackendDestroyDescriptor(void* object) { return delete static_cast<Holder*>(object), kOk; }

int cudnnBackendSetAttribute(void* object, int attribute, int type, int64_t count, const void* values) {
  Descriptor& own = *static_cast<Holder*>(object)->descriptor;
  if (own.finalized || count < 0) return fail(kBadParam, "set after it was finalized");
  Attribute& a = own.attributes[attribute] = {type, count, {}, {}};
  if (type == kObject) {
    for (int64_t i = 0; i < count; ++i) {
      const Shared& other = static_cast<Holder* const*>(values)[i]->descriptor;
      if (!other->finalized) return fail(kBadParam, "an object that is not finalized");
      a.objects.push_back(other);
    }
  } else {
    const auto* first = static_cast<const char*>(values);
    a.bytes.assign(first, first + static_cast<size_t>(count) * size_of(type));
  }
  return kOk;
}

int cudnnBackendFinalize(void* object) {
  Descriptor& own = *static_cast<Holder*>(object)->descriptor;
  if (own.finalized) return fail(kBadParam, "finalized twice");
  int status = kOk;
  if (own.type == HEURISTICS) status = propose(own);
  if (own.type == PLAN) status = compile(own);
  if (own.type == TENSOR && own.list<int64_t>(902).size() != own.list<int64_t>(903).size()) status = kBadParam;
  own.finalized = status == kOk;
  return status;
}

int cudnnBackendGetAttribute(void* object, int attribute, int type, int64_t most, int64_t* count, void* values) {
  const Descriptor& own = *static_cast<Holder*>(object)->descriptor;
  if (!own.finalized) return fail(kBadParam, "asked before it was finalized");
  *count = 0;
  const auto found = own.attributes.find(attribute);
  if (found == own.attributes.end()) return kOk;
  const Attribute& a = found->second;
  if (a.type != type) return fail(kBadParam, "an attribute of another type");
  *count = a.count;
  const int64_t n = std::min(most, a.count);
  if (type == kObject) {
    for (int64_t i = 0; i < n; ++i) {
      static_cast<Holder**>(values)[i]->descriptor = a.objects[static_cast<size_t>(i)];
    }
  } else if (n > 0) {
    std::memcpy(values, a.bytes.data(), static_cast<size_t>(n) * size_of(type));
  }
  return kOk;
}

int cudnnBackendExecute(Handle* handle, void* plan, void* pack) {
  const Use use(handle);
  const Descriptor& own = *static_cast<Holder*>(plan)->descriptor;
  const Descriptor& values = *static_cast<Holder*>(pack)->descriptor;
  if (!own.finalized || !values.finalized) return fail(kBadParam, "not finalized");
  const auto ids = values.list<int64_t>(1000);
  const auto pointers = values.list<char*>(1001);
  if (ids.size() != pointers.size()) return fail(kBadParam, "not as many addresses as names");
  static auto* const jobs = new std::deque<Job>;  // for the life of the process, as graphs may keep them
  Job* job = nullptr;
  {
    const std::lock_guard<std::mutex> lock(mutex);
    ++counts.executed;
    job = &jobs->emplace_back(Job{own.objects(0).at(0), {}});
  }
  for (size_t i = 0; i < ids.size(); ++i) job->memory[ids[i]] = pointers[i];
  return submit_function()(handle->stream, "cudnn", work, job) == 0 ? kOk : fail(kInternal, "the driver refused");
}

}  // extern "C"
