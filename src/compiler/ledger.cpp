#include "compiler/ledger.h"

#include <algorithm>
#include <set>

#include "lower/edges.h"
#include "program/combo.h"

namespace deepjit {

namespace {

class Finisher {
 public:
  Finisher(Program& program, const Probe& probed, const TuneReport* report, const HostSteps& host)
      : program_(program), probed_(probed), report_(report), host_(host) {
    for (size_t i = 0; i < probed.shapes.size(); ++i) {
      const Shape& shape = buffer(program.inputs[i].buffer).type.shape;
      for (int d = 0; shape.ranked() && d < shape.rank() && d < probed.shapes[i].dims.rank(); ++d) {
        if (shape[d].is_symbol()) symbols_.emplace(shape[d].to_string(), probed.shapes[i].dims[d]);
      }
    }
    for (const TuneTask& task : probed.tasks) {
      const Step& step = program.steps[static_cast<size_t>(task.step)];
      for (size_t i = 0; i < step.outputs.size(); ++i) {
        if (step.outputs[i] >= 0) seen_[step.outputs[i]] = task.outputs[i].bytes();
      }
      tuned_.insert(task.step);
    }
  }

  void run() {
    for (size_t i = 0; i < program_.steps.size(); ++i) {
      const Step& step = program_.steps[i];
      if (step.op == kRegionOp && !is_combo(program_, step)) add_region(static_cast<int32_t>(i));
    }
    note_combos();
    note_host_steps();
    for (LedgerEntry& entry : program_.ledger) entry.bytes_at_opt = bytes_at_opt(entry);
    std::stable_sort(program_.ledger.begin(), program_.ledger.end(),
                     [](const LedgerEntry& a, const LedgerEntry& b) { return a.bytes_at_opt > b.bytes_at_opt; });
  }

 private:
  const Buffer& buffer(int32_t index) const { return program_.buffers[static_cast<size_t>(index)]; }

  std::optional<int64_t> at_opt(const Dim& dim) const {
    return dim.evaluate([&](const std::string& symbol) -> std::optional<int64_t> {
      const auto it = symbols_.find(symbol);
      return it == symbols_.end() ? std::nullopt : std::optional<int64_t>(it->second);
    });
  }

  int64_t bytes_at_opt(const LedgerEntry& entry) const {
    const auto seen = seen_.find(entry.value);
    // At sizes that no run has, a dim such as N-3 may be negative.
    if (const auto bytes = at_opt(entry.bytes)) return std::max<int64_t>(*bytes, -1);
    if (seen == seen_.end()) return -1;
    const Shape& shape = buffer(entry.value).type.shape;
    const auto size = static_cast<int64_t>(dtype_size(buffer(entry.value).type.dtype));
    const bool only_read = shape.ranked() && entry.bytes == shape.count() * Dim(size);
    return only_read ? seen->second : 2 * seen->second;
  }

  // Why the region runs step by step; NONE when it does not, or when its steps cost nothing.
  std::pair<Why, std::string> why_split(int32_t index) const {
    const Step& region = program_.steps[static_cast<size_t>(index)];
    if (report_ == nullptr) return {Why::NOT_TUNED, "nothing was measured"};
    if (const auto it = report_->unfused.find(index); it != report_->unfused.end()) {
      return {it->second.rule, it->second.reason};
    }
    if (tuned_.count(index) != 0) return {};
    if (!probed_.failure.empty()) return {Why::NOT_TUNED, "the shapes to tune at were not found: " + probed_.failure};
    for (const auto* list : {&region.inputs, &region.outputs}) {
      for (int32_t b : *list) {
        if (b < 0 || buffer(b).is_constant) continue;
        const TensorType& type = buffer(b).type;
        if (!type.shape.ranked() || !at_opt(type.shape.count())) {
          return {Why::DATA_DEPENDENT_SHAPE,
                  "the size of \"" + buffer(b).name + "\" " + type.to_string() + " is known only when data is"};
        }
      }
    }
    return {};  // computed when shapes are bound
  }

  void add_region(int32_t index) {
    const auto [rule, reason] = why_split(index);
    if (rule == Why::NONE) return;
    const Step& region = program_.steps[static_cast<size_t>(index)];
    const std::vector<int32_t>& inner = program_.blocks[static_cast<size_t>(region.blocks[0])].steps;
    std::map<int32_t, int32_t> source;  // buffer -> the buffer that it is a view of
    std::map<int32_t, int32_t> writer;
    std::set<int32_t> written(region.outputs.begin(), region.outputs.end());
    std::set<std::pair<int32_t, int32_t>> noted;
    for (int32_t s : inner) {
      const Step& step = program_.steps[static_cast<size_t>(s)];
      if (is_alias(step.op)) {
        const auto it = source.find(step.inputs[0]);
        source[step.outputs[0]] = it == source.end() ? step.inputs[0] : it->second;
        continue;
      }
      for (int32_t b : step.inputs) {
        const auto it = source.find(b);
        const int32_t value = it == source.end() ? b : it->second;
        const auto from = writer.find(value);
        if (from == writer.end() || !noted.insert({value, s}).second) continue;
        add({value, from->second, s, rule, reason, why_rule(rule).fix, {}, -1, 1}, written.insert(value).second);
      }
      for (int32_t b : step.outputs) {
        if (b >= 0) writer[b] = s;
      }
    }
  }

  // Between kernels of one launch a value still goes through memory.
  void note_combos() {
    std::map<int32_t, int32_t> combo_of;  // a region or one of its steps -> the combo that runs it
    for (size_t i = 0; i < program_.steps.size(); ++i) {
      const Step& step = program_.steps[i];
      if (!is_combo(program_, step) || step.tactic.provider == Tactic{}.provider) continue;
      for (int32_t region : inside(step)) {
        for (int32_t s : inside(program_.steps[static_cast<size_t>(region)])) combo_of[s] = static_cast<int32_t>(i);
      }
    }
    for (LedgerEntry& entry : program_.ledger) {
      const auto from = combo_of.find(entry.producer);
      const auto to = combo_of.find(entry.consumer);
      if (from == combo_of.end() || to == combo_of.end() || from->second != to->second) continue;
      entry.launches = 0;
      entry.reason += "; both kernels run in one launch";
    }
  }

  // A value between a step on the device and one on the host is copied, whatever else keeps the two apart.
  void note_host_steps() {
    for (LedgerEntry& entry : program_.ledger) {
      for (const auto& [here, there] : {std::pair(entry.producer, entry.consumer), {entry.consumer, entry.producer}}) {
        const auto reason = host_.reasons.find(here);
        if (reason == host_.reasons.end() || host_.on_device.count(there) == 0) continue;
        const Step& step = program_.steps[static_cast<size_t>(here)];
        entry.rule = Why::DEVICE_LIMIT;
        entry.reason = "\"" + step.name + "\" (" + step.op + ") runs on the CPU: " + reason->second;
        entry.fix = "write the operator with ones that have kernels on the device, see docs/gpu.md";
      }
    }
  }

  std::vector<int32_t> inside(const Step& step) const {
    return step.op == kRegionOp ? program_.blocks[static_cast<size_t>(step.blocks[0])].steps : std::vector<int32_t>{};
  }

  void add(LedgerEntry entry, bool with_write) {
    entry.bytes = bytes_of(buffer(entry.value).type, with_write);
    program_.ledger.push_back(std::move(entry));
  }

  Program& program_;
  const Probe& probed_;
  const TuneReport* report_;
  const HostSteps& host_;
  std::map<std::string, int64_t> symbols_;
  std::map<int32_t, int64_t> seen_;  // buffer -> bytes, where the tuned shapes tell them
  std::set<int32_t> tuned_;
};

}  // namespace

void finish_ledger(Program& program, const Probe& probed, const TuneReport* report, const HostSteps& host) {
  Finisher(program, probed, report, host).run();
}

}  // namespace deepjit
