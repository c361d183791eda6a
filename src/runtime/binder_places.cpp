// The host half of bind() for a device: which steps run on the host, in which order both sides take their turns, and
// what is copied between them. Steps change places only where no value goes from one to the other, so that the sides
// take turns as seldom as a list of one side's ready steps allows.
#include <algorithm>
#include <set>

#include "device/device.h"
#include "runtime/binder.h"
#include "runtime/control.h"

namespace deepjit {

namespace {

// Steps and what they wait for: gives an order that stays on one side as long as any step there is ready.
class Turns {
 public:
  explicit Turns(size_t steps) : readers_(steps), waits_(steps, 0) {}
  void reads(size_t step, size_t producer) {
    readers_[producer].push_back(step);
    ++waits_[step];
  }

  struct Order {
    std::vector<size_t> steps;
    size_t turns = 0;
  };
  Order order(const std::vector<BoundStep>& steps, bool host) const {
    std::vector<size_t> waits = waits_;
    std::set<size_t> ready[2];
    for (size_t i = 0; i < steps.size(); ++i) {
      if (waits[i] == 0) ready[steps[i].on_host ? 1 : 0].insert(i);
    }
    Order out;
    while (!ready[0].empty() || !ready[1].empty()) {
      std::set<size_t>& own = ready[host ? 1 : 0];
      if (own.empty()) {
        host = !host;
        ++out.turns;
        continue;
      }
      const size_t next = *own.begin();
      own.erase(own.begin());
      out.steps.push_back(next);
      for (size_t reader : readers_[next]) {
        if (--waits[reader] == 0) ready[steps[reader].on_host ? 1 : 0].insert(reader);
      }
    }
    return out;
  }

 private:
  std::vector<std::vector<size_t>> readers_;  // by producer
  std::vector<size_t> waits_;                 // for so many producers
};

}  // namespace

// The roots that a step reads, also inside its bodies.
std::vector<int32_t> Binder::roots_read(const BoundStep& bound) const {
  std::vector<int32_t> roots;
  for (int32_t buffer : bound.inputs) {
    if (buffer >= 0) roots.push_back(root(buffer));
  }
  if (bound.kind != BoundStep::Kind::CONTROL) return roots;
  for (int32_t block : bound.step->blocks) {
    for (int32_t buffer : info_.imports[static_cast<size_t>(block)]) roots.push_back(root(buffer));
  }
  return roots;
}

void Binder::share_with_host() {
  made_on_host_.assign(states_.size(), false);
  if (request_.device == nullptr) return;
  std::vector<BoundStep>& steps = binding_->steps;
  if (std::none_of(steps.begin(), steps.end(), [](const BoundStep& bound) { return bound.on_host; })) return;
  std::vector<bool> made_on_device(states_.size(), false);
  for (BoundStep& bound : steps) {
    // What a copy hands out is an input or a constant, which lies on the host already, or some step's.
    if (bound.kind == BoundStep::Kind::COPY) {
      bound.on_host = !made_on_device[static_cast<size_t>(root(bound.inputs[0]))];
    }
    for (int32_t buffer : bound.outputs) {
      if (buffer < 0) continue;
      made_on_device[static_cast<size_t>(buffer)] = !bound.on_host;
      made_on_host_[static_cast<size_t>(buffer)] = bound.on_host;
    }
  }
  for (BoundOutput& output : binding_->outputs) {
    output.on_host = !made_on_device[static_cast<size_t>(output.root)];
    made_on_host_[static_cast<size_t>(output.root)] = output.on_host;
  }
  order_by_side();
  insert_copies();
}

void Binder::order_by_side() {
  std::vector<BoundStep>& steps = binding_->steps;
  std::vector<int> writer(states_.size(), -1);
  Turns turns(steps.size());
  for (size_t i = 0; i < steps.size(); ++i) {
    for (int32_t r : roots_read(steps[i])) {
      const int from = writer[static_cast<size_t>(r)];
      if (from >= 0) turns.reads(i, static_cast<size_t>(from));
    }
    for (int32_t buffer : steps[i].outputs) {
      if (buffer >= 0) writer[static_cast<size_t>(buffer)] = static_cast<int>(i);
    }
  }
  Turns::Order best = turns.order(steps, false);
  Turns::Order other = turns.order(steps, true);
  if (other.turns < best.turns) best = std::move(other);
  std::vector<BoundStep> ordered;
  ordered.reserve(steps.size());
  for (size_t i : best.steps) ordered.push_back(std::move(steps[i]));
  steps = std::move(ordered);
}

// A buffer in page-locked memory that holds a copy of `buffer` for an upload.
int32_t Binder::add_mirror(int32_t buffer) {
  const auto mirror = static_cast<int32_t>(states_.size());
  states_.push_back({states_[static_cast<size_t>(buffer)].type, {}, true});
  alias_.push_back(mirror);
  home_.push_back(Home::ARENA);
  made_on_host_.push_back(true);
  binding_->slots.push_back({nullptr, binding_->slots[static_cast<size_t>(buffer)].desc});
  return mirror;
}

// Copies stand at the end of the turn before the one that needs the value: they are part of the device's graphs.
void Binder::insert_copies() {
  std::vector<BoundStep> steps = std::move(binding_->steps);
  std::vector<BoundStep>& all = binding_->steps;
  all.clear();
  std::vector<bool> missing[2];  // on the device, on the host: made by a step, and not there yet
  for (auto& side : missing) side.assign(states_.size(), false);
  const auto add = [](std::vector<BoundStep>& to, BoundStep::Kind kind, int32_t from, int32_t into, bool on_host) {
    BoundStep& copy = to.emplace_back();
    copy.kind = kind;
    copy.inputs = {from};
    copy.outputs = {into};
    copy.on_host = on_host;
  };
  for (size_t first = 0, end = 0; first < steps.size(); first = end) {
    const bool host = steps[first].on_host;
    std::vector<BoundStep> uploads;
    for (end = first; end < steps.size() && steps[end].on_host == host; ++end) {
      for (int32_t r : roots_read(steps[end])) {
        const auto value = static_cast<size_t>(r);
        if (!missing[host ? 1 : 0][value]) continue;
        missing[host ? 1 : 0][value] = false;
        if (host) {
          add(all, BoundStep::Kind::DOWNLOAD, r, r, false);
          continue;
        }
        // What the caller or the step itself owns is not page-locked, and may lie elsewhere in the next run.
        int32_t from = r;
        if (home_[value] != Home::ARENA) add(all, BoundStep::Kind::COPY, r, from = add_mirror(r), true);
        add(uploads, BoundStep::Kind::UPLOAD, from, r, false);
      }
      for (int32_t buffer : steps[end].outputs) {
        if (buffer >= 0) missing[host ? 0 : 1][static_cast<size_t>(buffer)] = true;
      }
    }
    for (BoundStep& upload : uploads) all.push_back(std::move(upload));
    for (size_t i = first; i < end; ++i) all.push_back(std::move(steps[i]));
  }
}

// Does a root lie in this side's arena? What a step made there does, and every copy from the other side.
bool Binder::lies_in_arena(size_t buffer, Side side) const {
  if (alias_[buffer] != static_cast<int32_t>(buffer) || last_use_[side][buffer] < 0) return false;
  const Home home = home_[buffer];
  if (home == Home::ARENA) return true;
  if (side == MAIN) return (home == Home::OUTPUT || home == Home::OWNED) && made_on_host_[buffer];
  return home == Home::OUTPUT && !made_on_host_[buffer];
}

std::vector<int32_t> Binder::inputs_read(Side side) const {
  std::vector<int32_t> read;
  for (const auto& [buffer, desc] : request_.inputs) {
    if (last_use_[side][static_cast<size_t>(buffer)] >= 0) read.push_back(buffer);
  }
  std::sort(read.begin(), read.end());
  return read;
}

// Makes the host's steps a binding of their own.
void Binder::part_host() {
  binding_->read_inputs = inputs_read(MAIN);
  if (request_.device == nullptr) return;
  std::vector<BoundStep> steps = std::move(binding_->steps);
  std::vector<BoundStep>& on_device = binding_->steps;
  on_device.clear();
  if (std::none_of(steps.begin(), steps.end(), [](const BoundStep& bound) { return bound.on_host; })) {
    on_device = std::move(steps);
    return;
  }
  binding_->host = std::make_unique<Binding>();
  Binding& host = *binding_->host;
  host.threads = binding_->threads;
  host.slots = binding_->slots;
  host.known = binding_->known;
  host.unpacked = std::move(binding_->unpacked);
  for (const auto& [buffer, r] : binding_->aliases) {
    if (home_[static_cast<size_t>(r)] != Home::OWNED) host.aliases.emplace_back(buffer, r);
  }
  host.read_inputs = inputs_read(HOST);
  lay_out(HOST, host);
  bool copies = false;  // that the device may still be at
  bool was_host = false;
  for (BoundStep& bound : steps) {
    const bool on_host = bound.on_host;
    if (binding_->segments.empty() || (was_host && !on_host)) binding_->segments.emplace_back();
    Segment& turn = binding_->segments.back();
    if (on_host && copies) {
      turn.waits = true;
      copies = false;
    }
    copies = copies || bound.kind == BoundStep::Kind::UPLOAD || bound.kind == BoundStep::Kind::DOWNLOAD;
    (on_host ? host.steps : on_device).push_back(std::move(bound));
    turn.device_end = on_device.size();
    turn.host_end = host.steps.size();
    was_host = on_host;
  }
}

}  // namespace deepjit
