// Launches of a DeviceRun: one by one or as graphs, and how the engine's thread makes these.
#include "runtime/device_layout.h"
#include "runtime/device_run.h"

namespace deepjit {

void DeviceRun::enqueue(const ProgramInfo& info, Binding& binding, DeviceBinding& own, const Stretch& stretch,
                        device::Stream& stream, bool timed, Observer* observer) {
  if (timed) stream.record(*start_);
  void* scratch = at(own.base, device_size(binding.arena_bytes));
  execute_steps(info, binding, stretch.first, stretch.end, scratch, observer);
  if (timed) stream.record(*end_);
}

void DeviceRun::launch(const ProgramInfo& info, Binding& binding, DeviceBinding& own, const Stretch& stretch,
                       device::Stream& stream, Observer* observer) {
  const bool timed = measure_ && binding.host == nullptr;
  if (observer == nullptr) {
    GraphCache& graphs = own.graphs[stretch.turn];
    key_.addresses = io_.addresses();
    key_.tells_time = timed;
    if (const device::Graph* graph = graphs.find(key_)) {
      ++counts_.replayed;
      return stream.launch(*graph);
    }
    if (graphs.wants(key_)) missing_.push_back(stretch);
  }
  ++counts_.direct;
  use_.stream = &stream;
  enqueue(info, binding, own, stretch, stream, timed, observer);
}

DeviceRun::Stretch DeviceRun::stretch_of(const Binding& binding, size_t turn) {
  if (binding.host == nullptr) return {0, 0, binding.steps.size()};
  if (turn >= binding.segments.size()) return {turn, 0, 0};
  return {turn, turn == 0 ? 0 : binding.segments[turn - 1].device_end, binding.segments[turn].device_end};
}

// Graphs that fit no more, as memory has moved or the binding goes.
void DeviceRun::retire_graphs(const Binding& binding, DeviceBinding& own) {
  for (size_t turn = 0; turn < own.graphs.size(); ++turn) {
    const Stretch stretch = stretch_of(binding, turn);
    for (auto& [key, graph] : own.graphs[turn].take_all()) {
      spares_.add(stretch.end - stretch.first, key.tells_time, std::move(graph));
    }
  }
}

// Of a run that failed before it asked for its graphs.
void DeviceRun::give_up_missing(Binding& binding) {
  const std::lock_guard<FairMutex> lock(launching_);
  for (const Stretch& stretch : missing_) binding.on_device->graphs[stretch.turn].give_up(key_);
  missing_.clear();
}

void DeviceRun::post_graphs(const ProgramInfo& info, Binding& binding) {
  const DeviceBinding& own = *binding.on_device;
  Wanted wanted{own.last, std::move(missing_), own.base, own.host_base};
  missing_ = {};
  jobs_.post([this, &info, &binding, wanted = std::move(wanted)] { make_graphs(info, binding, wanted); });
}

void DeviceRun::make_graphs(const ProgramInfo& info, Binding& binding, const Wanted& wanted) noexcept {
  for (const Stretch& stretch : wanted.stretches) {
    try {
      make_graph(info, binding, wanted, stretch);
    } catch (const std::exception&) {  // a run that comes upon the same tells of it
      const std::lock_guard<FairMutex> lock(launching_);
      ++counts_.failed;
      binding.on_device->graphs[stretch.turn].give_up(wanted.key);
      binding.on_device->graphs[stretch.turn].give_up_for_good();
    }
  }
}

void DeviceRun::make_graph(const ProgramInfo& info, Binding& binding, const Wanted& wanted, const Stretch& stretch) {
  DeviceBinding& own = *binding.on_device;
  GraphCache& graphs = own.graphs[stretch.turn];
  const auto fits = [&] { return !ending_ && own.base == wanted.base && own.host_base == wanted.host_base; };
  std::unique_ptr<device::Recording> recording;
  std::unique_ptr<device::Graph> older;
  {
    const std::lock_guard<FairMutex> lock(launching_);
    if (!fits()) return graphs.give_up(wanted.key);
    recording = capture(info, binding, wanted, stretch);
    ++counts_.captured;
    older = graphs.take_oldest();
    if (older == nullptr) older = spares_.take(stretch.end - stretch.first, wanted.key.tells_time);
  }
  const device::Graph* before = older.get();
  std::unique_ptr<device::Graph> graph = recording->make(std::move(older));
  const std::lock_guard<FairMutex> lock(launching_);
  ++(graph.get() == before ? counts_.updated : counts_.instantiated);
  if (fits()) return graphs.keep(wanted.key, std::move(graph));
  graphs.give_up(wanted.key);
  spares_.add(stretch.end - stretch.first, wanted.key.tells_time, std::move(graph));
}

// Every run settles inputs and outputs anew: what is set here is of no consequence to the next.
std::unique_ptr<device::Recording> DeviceRun::capture(const ProgramInfo& info, Binding& binding, const Wanted& wanted,
                                                      const Stretch& stretch) {
  DeviceBinding& own = *binding.on_device;
  if (capturing_ == nullptr) capturing_ = device().make_stream();
  capture_use_ = use_;
  capture_use_.stream = capturing_.get();
  size_t next = 0;
  for (const std::vector<IoPlace>* places : {&own.io.inputs, &own.io.outputs}) {
    for (const IoPlace& place : *places) {
      binding.slots[static_cast<size_t>(place.buffer)].data = wanted.key.addresses[next++];
    }
  }
  binding.device = &capture_use_;
  follow_aliases(binding);
  capturing_->begin_capture();
  try {
    enqueue(info, binding, own, stretch, *capturing_, wanted.key.tells_time, nullptr);
  } catch (...) {
    try {
      capturing_->end_recording();
    } catch (const Error&) {  // of what the first failure has spoilt
    }
    throw;
  }
  return capturing_->end_recording();
}

void DeviceRun::forget(Binding& binding) {
  settle();
  if (binding.on_device == nullptr) return;
  const std::lock_guard<FairMutex> lock(launching_);
  retire_graphs(binding, *binding.on_device);
}

GraphCounts DeviceRun::graph_counts() const {
  const std::lock_guard<FairMutex> lock(launching_);
  return counts_;
}

double DeviceRun::replay_us(const ProgramInfo& info, Binding& binding) {
  constexpr int kReplays = 4;  // the last one is timed
  settle();
  finish();
  DeviceBinding* own = binding.on_device.get();
  if (own == nullptr || !own->last.tells_time) {
    throw Error(Code::STATE, "there is no run to replay", "run with its time measured first");
  }
  device::Graph* graph = own->graphs[0].find(own->last);
  if (graph == nullptr) {  // of addresses that nobody has expected again
    try {
      make_graph(info, binding, {own->last, {}, own->base, own->host_base}, stretch_of(binding, 0));
    } catch (const Error& e) {
      if (e.code() == Code::DEVICE_LOST) throw;
      throw Error(Code::STATE, "the launches cannot be replayed: " + e.message());
    }
    graph = own->graphs[0].find(own->last);
  }
  for (int i = 0; i < kReplays; ++i) stream_->launch(*graph);
  stream_->synchronize();
  return device().elapsed_us(*start_, *end_);
}

}  // namespace deepjit
