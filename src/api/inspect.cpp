// What an engine is, as text for people and as a list of steps.
#include "api/internal.h"
// internal.h comes first
#include <fmt/format.h>

#include "api/impl.h"
#include "program/precision_notes.h"
#include "program/ranges.h"
#include "program/user_ops.h"

namespace deepjit {
inline namespace v1 {

namespace {

std::string tactic_name(const Tactic& tactic) {
  return tactic.variant.empty() ? tactic.provider : tactic.provider + ":" + tactic.variant;
}

std::string shape_text(const std::vector<int64_t>& shape) { return Dims(std::span<const int64_t>(shape)).to_string(); }

std::string type_text(const TensorInfo& info) {
  std::string text = data_type_name(info.dtype) + "[";
  if (!info.ranked) text += "*";
  for (size_t i = 0; i < info.shape.size(); ++i) text += (i ? "," : "") + info.shape[i].text;
  text += "]";
  if (!info.element.empty()) text += "(" + type_text(info.element[0]) + ")";
  return text;
}

std::string line_of(const TensorInfo& info) {
  std::string text = "  " + info.name + ": " + type_text(info);
  if (info.optional) text += " (may be left out)";
  if (info.has_range) {
    text += "  range " + shape_text(info.range.min) + " " + shape_text(info.range.opt) + " " +
            shape_text(info.range.max) + " (min, opt, max)";
  }
  return text + "\n";
}

std::string line_of(const StepInfo& step) {
  return fmt::format("  {:<22} {:<34} {:>10} {}{}\n", step.op, step.tactic,
                     step.time_us > 0 ? fmt::format("{:.1f} us", step.time_us) : "not timed", step.name,
                     of_user_ops(step.user_ops));
}

}  // namespace

std::vector<StepInfo> step_infos(const Program& program) {
  std::vector<StepInfo> infos;
  infos.reserve(program.steps.size());
  const UserOpNames users(program);
  const PrecisionReasons reasons(program);
  for (const Step& step : program.steps) {
    infos.push_back({step.name, step.op, tactic_name(step.tactic), step.tactic.time_us, step.tactic.max_error,
                     step.origins, users.of(step), reasons.of(step)});
  }
  return infos;
}

std::vector<WhyEntry> why_entries(const Program& program) {
  std::vector<WhyEntry> entries;
  entries.reserve(program.ledger.size());
  const UserOpNames users(program);
  for (const LedgerEntry& entry : program.ledger) {
    const Buffer& value = program.buffers[static_cast<size_t>(entry.value)];
    const Step& from = program.steps[static_cast<size_t>(entry.producer)];
    const Step& to = program.steps[static_cast<size_t>(entry.consumer)];
    entries.push_back({value.name, value.type.to_string(), from.name, from.op, to.name, to.op, why_rule(entry.rule).id,
                       entry.reason, entry.fix, entry.bytes.to_string(), entry.bytes_at_opt, entry.launches,
                       users.of(from), users.of(to)});
  }
  return entries;
}

std::string describe(const Engine::Impl& impl) {
  std::string text = "inputs:\n";
  for (const TensorInfo& info : impl.inputs) text += line_of(info);
  text += "outputs:\n";
  for (const TensorInfo& info : impl.outputs) text += line_of(info);
  const std::vector<StepInfo> steps = step_infos(impl.program());
  text += fmt::format("steps: {}\n", steps.size());
  for (const StepInfo& step : steps) text += line_of(step);
  const std::vector<Program>& others = impl.program().others;
  if (!others.empty()) text += "range 1: " + range_text(impl.program()) + ", as above\n";
  for (size_t k = 0; k < others.size(); ++k) {
    text += fmt::format("range {}: {}\n", k + 2, range_text(others[k]));
    const std::vector<StepInfo> own = step_infos(others[k]);
    for (size_t i = 0; i < own.size(); ++i) {
      const bool same = i < steps.size() && own[i].name == steps[i].name && own[i].tactic == steps[i].tactic;
      if (!same) text += line_of(own[i]);
    }
  }
  text += fmt::format("edges between kernels: {}\n", impl.program().ledger.size());
  for (const WhyEntry& entry : why_entries(impl.program())) {
    text += fmt::format("  {} {} {}{} -> {}{}: {}\n", entry.rule, entry.value, entry.producer,
                        of_user_ops(entry.producer_user_ops), entry.consumer, of_user_ops(entry.consumer_user_ops),
                        entry.reason);
  }
  text += fmt::format("memory: arena {} bytes at the largest shapes, lower bound {} bytes\n", impl.report.arena_bytes,
                      impl.report.arena_lower_bound);
  return text + "\n" + impl.graph_text;
}

}  // namespace v1
}  // namespace deepjit
