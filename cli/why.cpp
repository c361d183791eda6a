#include "cli/why.h"

#include <fmt/format.h>

#include "cli/text.h"
#include "program/user_ops.h"

namespace deepjit::cli {

namespace {

const Step& step_at(const Program& program, int32_t index) { return program.steps[static_cast<size_t>(index)]; }

std::string cost_text(const LedgerEntry& entry) {
  std::string text = entry.bytes.to_string() == "?" ? "bytes unknown" : entry.bytes.to_string() + " bytes";
  if (entry.bytes_at_opt >= 0 && !entry.bytes.is_const()) {
    text += fmt::format(" ({})", bytes_text(static_cast<double>(entry.bytes_at_opt)));
  }
  return text + (entry.launches > 0 ? ", 1 launch" : "");
}

}  // namespace

HowItRuns::HowItRuns(const Program& program)
    : program_(program), region_(program.steps.size(), -1), rules_(program.steps.size(), nullptr) {
  for (size_t i = 0; i < program.steps.size(); ++i) {
    if (program.steps[i].op != kRegionOp) continue;
    for (int32_t inner : program.blocks[static_cast<size_t>(program.steps[i].blocks[0])].steps) {
      region_[static_cast<size_t>(inner)] = static_cast<int32_t>(i);
    }
  }
  for (const LedgerEntry& entry : program.ledger) {
    const int32_t region = region_[static_cast<size_t>(entry.producer)];
    if (region < 0 || region != region_[static_cast<size_t>(entry.consumer)]) continue;
    rules_[static_cast<size_t>(region)] = why_rule(entry.rule).id;
  }
}

bool HowItRuns::is_step_by_step(size_t step) const {
  return program_.steps[step].op == kRegionOp && program_.steps[step].tactic.provider == Tactic{}.provider;
}

std::string HowItRuns::why_step_by_step(size_t step) const {
  if (!is_step_by_step(step)) return "";
  return rules_[step] != nullptr ? rules_[step] : "";
}

bool HowItRuns::launches(size_t step) const {
  if (is_step_by_step(step)) return false;
  for (int32_t region = region_[step]; region >= 0; region = region_[static_cast<size_t>(region)]) {
    if (!is_step_by_step(static_cast<size_t>(region))) return false;
  }
  return true;
}

std::string HowItRuns::text(size_t index) const {
  const Step& step = program_.steps[index];
  if (is_step_by_step(index))
    return rules_[index] != nullptr ? fmt::format("step by step: {}", rules_[index]) : "step by step";
  if (step.op != kRegionOp && !step.blocks.empty()) return "control flow";
  return launches(index) ? tactic_name(step.tactic) : fmt::format("in step {}", region_[index]);
}

std::string why_text(const Program& program) {
  if (program.ledger.empty()) return "every edge between two operators is inside a kernel\n";
  const UserOpNames users(program);
  std::string text;
  for (const LedgerEntry& entry : program.ledger) {
    const Buffer& value = program.buffers[static_cast<size_t>(entry.value)];
    const Step& from = step_at(program, entry.producer);
    const Step& to = step_at(program, entry.consumer);
    text += fmt::format("{}: {}  {} \"{}\"{} -> {} \"{}\"{}\n", why_rule(entry.rule).id,
                        value.name + " " + value.type.to_string(), from.op, from.name, users.text(from), to.op, to.name,
                        users.text(to));
    text += fmt::format("    why   {}\n    cost  {}\n    lift  {}\n", entry.reason, cost_text(entry), entry.fix);
  }
  return text;
}

Json why_json(const Program& program) {
  const UserOpNames users(program);
  Json ledger = Json::array();
  auto node = [&](int32_t index) {
    const Step& step = step_at(program, index);
    return Json{{"step", index}, {"node", step.name}, {"op", step.op}, {"user_ops", users.of(step)}};
  };
  for (const LedgerEntry& entry : program.ledger) {
    const Buffer& value = program.buffers[static_cast<size_t>(entry.value)];
    ledger.push_back({{"value", value.name},
                      {"type", value.type.to_string()},
                      {"producer", node(entry.producer)},
                      {"consumer", node(entry.consumer)},
                      {"rule", why_rule(entry.rule).id},
                      {"reason", entry.reason},
                      {"fix", entry.fix},
                      {"bytes", entry.bytes.to_string()},
                      {"bytes_at_opt", entry.bytes_at_opt < 0 ? Json(nullptr) : Json(entry.bytes_at_opt)},
                      {"launches", entry.launches}});
  }
  return ledger;
}

}  // namespace deepjit::cli
