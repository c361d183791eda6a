#include <omp.h>
#include <unistd.h>
#include <xmmintrin.h>

#include <algorithm>
#include <cstring>

#include "base/limits.h"
#include "ops/common.h"
#include "ops/sequence/sequence.h"
#include "runtime/engine.h"
#include "runtime/exclusive.h"

namespace deepjit {

namespace {

// Sets the thread count and the default floating-point state for one run, and restores the caller's.
class RunScope {
 public:
  explicit RunScope(int threads) : threads_(omp_get_max_threads()), csr_(_mm_getcsr()) {
    if (threads != threads_) omp_set_num_threads(threads);
    _mm_setcsr(0x1f80);
    changed_ = threads != threads_;
  }
  ~RunScope() {
    if (changed_) omp_set_num_threads(threads_);
    _mm_setcsr(csr_);
  }
  RunScope(const RunScope&) = delete;
  RunScope& operator=(const RunScope&) = delete;

 private:
  int threads_;
  unsigned csr_;
  bool changed_ = false;
};

Tensor copy_of(const TensorView& view) {
  Tensor t(view.dtype, view.dims);
  std::memcpy(t.view().data, view.data, static_cast<size_t>(view.bytes()));
  return t;
}

}  // namespace

Context::Context(std::shared_ptr<const Engine> engine, int threads) : engine_(std::move(engine)), process_(getpid()) {
  threads_ = threads > 0 ? threads : engine_->program().threads;
  if (threads_ <= 0) threads_ = omp_get_num_procs();
  output_memory_.resize(engine_->program().outputs.size());
  fed_.resize(engine_->program().inputs.size());
  if (auto side = engine_->device_side()) device_ = std::make_unique<DeviceRun>(std::move(side));
}

bool Context::by_value(size_t input, const TensorView& view) const {
  return engine_->info().by_value[input] && !is_object(view.dtype) && view.dims.rank() <= 1 &&
         view.count() <= limits::value_elements;
}

bool Context::matches(const Cached& cached, std::span<const TensorView> inputs) const {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!(cached.key[i] == binding_key(inputs[i]))) return false;
    if (!by_value(i, inputs[i])) continue;
    if (std::memcmp(cached.values[i].view().data, inputs[i].data, static_cast<size_t>(inputs[i].bytes())) != 0) {
      return false;
    }
  }
  return true;
}

Context::Cached& Context::bound_for(std::span<const TensorView> inputs) {
  for (auto it = cache_.begin(); it != cache_.end(); ++it) {
    if (!matches(*it, inputs)) continue;
    cache_.splice(cache_.begin(), cache_, it);
    return cache_.front();
  }
  const Program& program = engine_->program();
  Cached cached;
  BindRequest request;
  request.threads = threads_;
  if (device_ != nullptr) request.device = &device_->device();
  for (size_t i = 0; i < inputs.size(); ++i) {
    cached.key.push_back(binding_key(inputs[i]));
    cached.values.emplace_back();
    request.inputs.emplace_back(program.inputs[i].buffer, cached.key.back());
    if (by_value(i, inputs[i])) {
      cached.values.back() = copy_of(inputs[i]);
      request.known[program.inputs[i].buffer] = cached.values.back();
    }
  }
  cached.info = &engine_->info_for(inputs);
  cached.binding = bind(*cached.info, request);
  if (cache_.size() >= static_cast<size_t>(limits::bindings)) {
    if (device_ != nullptr) {
      device_->finish();
      device_->forget(*cache_.back().binding);
    }
    cache_.pop_back();
  }
  cache_.push_front(std::move(cached));
  return cache_.front();
}

void Context::enter() const {
  if (getpid() != process_) {
    throw Error(Code::AFTER_FORK, "this context was made before fork()", "create contexts in the child process");
  }
  engine_->check_backing();
}

void Context::run(std::span<const TensorView> inputs, std::vector<TensorView>& outputs,
                  const OutputAllocator& allocate) {
  RunRequest request;
  request.inputs = inputs;
  if (allocate) {
    request.place = [&](size_t i, const TensorDesc& desc) { return OutputPlace{allocate(i, desc), Side::HOST}; };
  }
  run(request, results_);
  outputs.resize(results_.size());
  for (size_t i = 0; i < results_.size(); ++i) outputs[i] = results_[i].view;
}

void Context::run(const RunRequest& request, std::vector<RunOutput>& outputs) {
  const Exclusive exclusive(running_);
  enter();
  if (device_ == nullptr && (request.keep_on_device || request.stream || !request.wait || !request.after.empty())) {
    throw Error(Code::ARGUMENT, "the engine runs on the CPU, which has no streams and no memory of its own",
                "build the model with --device cuda");
  }
  const RunScope scope(threads_);
  take_inputs(request);
  Cached& cached = bound_for(fed_);
  if (device_ == nullptr) return run_on_host(cached, request, outputs);
  RunRequest own = request;
  own.inputs = fed_;
  own.memory = fed_sides_;
  own.wait = request.wait || cached.binding->host != nullptr;
  device_->run(*cached.info, *cached.binding, own, outputs, observer_);
}

// Checks the inputs and puts defaults where none was fed; those whose values decide shapes come to the host.
void Context::take_inputs(const RunRequest& request) {
  const Program& program = engine_->program();
  const std::span<const TensorView> inputs = request.inputs;
  fed_sides_.assign(inputs.size(), Side::HOST);
  bool check = cache_.empty() || inputs.size() != program.inputs.size();
  bool by_values = false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (i < request.memory.size()) fed_sides_[i] = request.memory[i];
    const bool here = fed_sides_[i] == Side::DEVICE;
    if (here && device_ == nullptr) {
      throw Error(Code::ARGUMENT, "an input lies on a device, the engine runs on the CPU", "copy it to the host first");
    }
    check = check || is_collection(inputs[i].dtype);
    by_values = by_values || (here && i < program.inputs.size() && engine_->info().by_value[i]);
  }
  // A binding that matches has been checked when it was made, all but the elements of sequences and optionals.
  if (check || by_values || !matches(cache_.front(), inputs)) check_inputs(program, inputs);
  downloaded_.clear();
  for (size_t i = 0; i < inputs.size(); ++i) {
    const bool fed = inputs[i].dtype != DType::UNDEFINED;
    fed_[i] = fed ? inputs[i] : program.inputs[i].default_value.view();
    if (!fed) fed_sides_[i] = Side::HOST;
    if (fed_sides_[i] == Side::HOST || !by_value(i, fed_[i])) continue;
    if (!request.wait) {
      throw Error(Code::ARGUMENT,
                  "input \"" + program.inputs[i].name +
                      "\" decides shapes: its value has to be on the host before a run "
                      "that is not waited for",
                  "give it as host memory");
    }
    downloaded_.push_back(device_->download(fed_[i], request.after));
    fed_[i] = downloaded_.back().view();
    fed_sides_[i] = Side::HOST;
  }
}

void Context::run_on_host(Cached& cached, const RunRequest& request, std::vector<RunOutput>& outputs) {
  const Program& program = engine_->program();
  Binding& binding = *cached.binding;
  const auto wanted = [&](size_t i, const TensorDesc& desc) -> void* {
    const OutputPlace place = request.place ? request.place(i, desc) : OutputPlace{};
    if (place.data != nullptr && place.side == Side::DEVICE) {
      throw Error(Code::ARGUMENT,
                  "output \"" + program.outputs[i].name +
                      "\" is to go to a device, the engine runs on "
                      "the CPU",
                  "give host memory");
    }
    return place.data;
  };
  void* arena = arena_.ensure(binding.arena_bytes + binding.scratch_bytes);
  if (cached.placed_at != arena) {
    place(binding, arena);
    cached.placed_at = arena;
  }
  for (size_t i = 0; i < fed_.size(); ++i) {
    if (!cached.values[i].defined()) {
      binding.slots[static_cast<size_t>(program.inputs[i].buffer)] = {fed_[i].data, fed_[i].desc()};
    }
  }
  outputs.assign(binding.outputs.size(), {});
  for (size_t i = 0; i < binding.outputs.size(); ++i) {
    const BoundOutput& output = binding.outputs[i];
    if (output.dynamic) continue;
    const TensorDesc& desc = binding.slots[static_cast<size_t>(output.slot)].desc;
    void* data = wanted(i, desc);
    if (data == nullptr) data = output_memory_[i].ensure(static_cast<size_t>(desc.bytes()));
    binding.slots[static_cast<size_t>(output.root)].data = data;
    outputs[i].view = {desc.dtype, desc.dims, data};
  }
  execute(*cached.info, binding, static_cast<std::byte*>(arena) + binding.arena_bytes, observer_);
  for (size_t i = 0; i < binding.outputs.size(); ++i) {
    const BoundOutput& output = binding.outputs[i];
    if (!output.dynamic) continue;
    const Slot& slot = binding.slots[static_cast<size_t>(output.slot)];
    outputs[i].view = {slot.desc.dtype, slot.desc.dims, slot.data};
    void* data = is_object(slot.desc.dtype) ? nullptr : wanted(i, slot.desc);
    if (data == nullptr) continue;
    copy_elements(outputs[i].view, {slot.desc.dtype, slot.desc.dims, data});
    outputs[i].view.data = data;
  }
}

void Context::finish() {
  const Exclusive exclusive(running_);
  enter();
  if (device_ == nullptr) return;
  device_->finish();
  device_->settle();
}

size_t Context::memory_bytes() const {
  size_t bytes = arena_.bytes();
  if (device_ != nullptr) bytes += device_->device_bytes() + device_->host_bytes();
  for (const Memory& memory : output_memory_) bytes += memory.bytes();
  for (const Cached& cached : cache_) {
    const Binding& binding = *cached.binding;
    for (const auto& [buffer, memory] : (binding.host == nullptr ? binding : *binding.host).owned) {
      bytes += memory.bytes();
    }
  }
  return bytes;
}

size_t Context::device_bytes() const {
  if (device_ == nullptr) return 0;
  size_t bytes = device_->device_bytes();
  for (const Cached& cached : cache_) {
    const DeviceBinding* own = cached.binding->on_device.get();
    if (own != nullptr && own->known != nullptr) bytes += own->known->bytes();
  }
  return bytes;
}

void Context::measure_device_time(bool on) {
  if (device_ != nullptr) device_->measure_device_time(on);
}

double Context::replay_us() {
  if (device_ == nullptr) return 0;
  if (cache_.empty()) throw Error(Code::STATE, "there is no run to replay");
  return device_->replay_us(*cache_.front().info, *cache_.front().binding);
}

GraphCounts Context::graph_counts() const { return device_ == nullptr ? GraphCounts{} : device_->graph_counts(); }

const Binding* Context::last_binding() const { return cache_.empty() ? nullptr : cache_.front().binding.get(); }

}  // namespace deepjit
