#include "cli/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "cli/inputs.h"
#include "cli/why.h"
#include "program/precision_notes.h"
#include "program/ranges.h"
#include "program/user_ops.h"
#include "runtime/binding.h"

namespace deepjit::cli {

std::string bytes_text(double bytes) {
  if (bytes < 1024) return fmt::format("{:.0f} B", bytes);
  if (bytes < 1024.0 * 1024) return fmt::format("{:.1f} KiB", bytes / 1024);
  if (bytes < 1024.0 * 1024 * 1024) return fmt::format("{:.2f} MiB", bytes / (1024.0 * 1024));
  return fmt::format("{:.2f} GiB", bytes / (1024.0 * 1024 * 1024));
}

std::string time_text(double us) {
  if (us < 1000) return fmt::format("{:.1f} us", us);
  if (us < 1e6) return fmt::format("{:.2f} ms", us / 1000);
  return fmt::format("{:.2f} s", us / 1e6);
}

bool is_control(const Step& step) { return step.op != kRegionOp && !step.blocks.empty(); }

std::map<std::string, int> steps_by_provider(const Program& program) {
  std::map<std::string, int> counts;
  const HowItRuns how(program);
  for (size_t i = 0; i < program.steps.size(); ++i) {
    if (how.launches(i)) ++counts[is_control(program.steps[i]) ? "control" : program.steps[i].tactic.provider];
  }
  return counts;
}

std::string counts_text(const std::map<std::string, int>& counts) {
  std::vector<std::pair<std::string, int>> sorted(counts.begin(), counts.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string text;
  for (const auto& [name, count] : sorted) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, count);
  return text.empty() ? "none" : text;
}

std::string tactic_name(const Tactic& tactic) {
  return tactic.variant.empty() ? tactic.provider : tactic.provider + ":" + tactic.variant;
}

std::string type_text(const Program& program, int32_t buffer) {
  return buffer < 0 ? "-" : program.buffers[static_cast<size_t>(buffer)].type.to_string();
}

namespace {

std::string first_output_type(const Program& program, const Step& step) {
  for (int32_t buffer : step.outputs) {
    if (buffer >= 0) return type_text(program, buffer);
  }
  return "-";
}

std::string operand_names(const Program& program, const std::vector<int32_t>& buffers) {
  std::string text;
  for (int32_t b : buffers) {
    text += text.empty() ? "" : ", ";
    text += b < 0 ? "_" : fmt::format("%{}", program.buffers[static_cast<size_t>(b)].name);
  }
  return text;
}

bool has_16_bits(const Program& program, const Step& step) {
  return std::any_of(step.outputs.begin(), step.outputs.end(), [&](int32_t b) {
    const DType t = b < 0 ? DType::UNDEFINED : program.buffers[static_cast<size_t>(b)].type.dtype;
    return t == DType::FLOAT16 || t == DType::BFLOAT16;
  });
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ",") + word;
  return text;
}

}  // namespace

size_t tactic_width(const Program& program) {
  size_t width = 12;
  const HowItRuns how(program);
  for (size_t i = 0; i < program.steps.size(); ++i) width = std::max(width, how.text(i).size());
  return std::min<size_t>(width, 48);
}

std::string steps_text(const Program& program, const Program* like) {
  const std::optional<HowItRuns> there = like == nullptr ? std::nullopt : std::make_optional<HowItRuns>(*like);
  const auto is_like = [&](size_t i, const HowItRuns& how) {
    return like != nullptr && i < like->steps.size() && like->steps[i].op == program.steps[i].op &&
           there->text(i) == how.text(i);
  };
  const size_t width = tactic_width(program);
  const HowItRuns how(program);
  const UserOpNames users(program);
  const PrecisionReasons reasons(program);
  std::string text = fmt::format("{:>5}  {:<20} {:<28} {:<{}} {:>10} {:>9}  {}\n", "step", "op", "type", "tactic",
                                 width, "time", "error", "name");
  bool sixteen = false;
  for (size_t i = 0; i < program.steps.size(); ++i) {
    const Step& s = program.steps[i];
    if (is_like(i, how)) continue;
    const bool timed = s.tactic.time_us > 0;
    text += fmt::format("{:>5}  {:<20} {:<28} {:<{}} {:>10} {:>9}  {}\n", i, s.op, first_output_type(program, s),
                        how.text(i), width, timed ? time_text(s.tactic.time_us) : "-",
                        timed ? fmt::format("{:.1e}", s.tactic.max_error) : "-", s.name + users.text(s));
    if (const std::string why = reasons.text(s); !why.empty()) text += fmt::format("{:>5}  {}\n", "", why);
    sixteen = sixteen || (timed && has_16_bits(program, s));
  }
  if (sixteen) {
    text +=
        "error: of 16-bit floats, one unit in the last place is allowed besides the tolerance; a region rounds them "
        "where it stores\n";
  }
  return text;
}

std::string steps_of_ranges(const Program& program) {
  if (program.others.empty()) return steps_text(program);
  std::string text;
  for (const Program* own : programs_of(program)) {
    const bool first = own == &program;
    text += fmt::format("range {}{}\n{}\n", which_range(program, *own),
                        first ? "" : ", where it differs from the first", steps_text(*own, first ? nullptr : &program));
  }
  return text;
}

std::string range_option(const Program& program) {
  std::string text;
  for (const ProgramInput& input : program.inputs) {
    if (!input.has_range) continue;
    const ShapeRange& r = input.range;
    text += fmt::format("{}{}={}:{}:{}", text.empty() ? "" : " ", input.name, shape_text(r.min), shape_text(r.opt),
                        shape_text(r.max));
  }
  return text.empty() ? "any shape" : text;
}

std::string which_range(const Program& program, const Program& own) {
  const std::vector<const Program*> all = programs_of(program);
  const auto place = std::find(all.begin(), all.end(), &own) - all.begin();
  return fmt::format("{} of {}: {}", place + 1, all.size(), range_option(own));
}

Json ranges_json(const Program& program) {
  if (program.others.empty()) return nullptr;
  Json ranges = Json::array();
  for (const Program* own : programs_of(program)) {
    Json inputs = Json::object();
    for (const ProgramInput& input : own->inputs) {
      if (input.has_range) inputs[input.name] = range_json(input.range);
    }
    ranges.push_back({{"inputs", inputs}, {"tactics", steps_by_provider(*own)}, {"steps", steps_json(*own)}});
  }
  return ranges;
}

Json range_json(const ShapeRange& range) {
  return {{"min", shape_text(range.min)}, {"opt", shape_text(range.opt)}, {"max", shape_text(range.max)}};
}

Json steps_json(const Program& program) {
  const HowItRuns how(program);
  const UserOpNames users(program);
  const PrecisionReasons reasons(program);
  Json steps = Json::array();
  for (size_t i = 0; i < program.steps.size(); ++i) {
    const Step& s = program.steps[i];
    const std::string why = how.why_step_by_step(i);
    Json outputs = Json::array();
    for (int32_t b : s.outputs) {
      if (b >= 0) outputs.push_back(program.buffers[static_cast<size_t>(b)].name);
    }
    steps.push_back({{"step", i},
                     {"op", s.op},
                     {"name", s.name},
                     {"type", first_output_type(program, s)},
                     {"outputs", outputs},
                     {"tactic", is_control(s) ? "control" : tactic_name(s.tactic)},
                     {"runs", how.text(i)},
                     {"why", why.empty() ? Json(nullptr) : Json(why)},
                     {"time_us", s.tactic.time_us},
                     {"max_error", s.tactic.max_error},
                     {"origins", s.origins},
                     {"user_ops", users.of(s)},
                     {"precision", reasons.of(s)}});
  }
  return steps;
}

MemoryText plan_of(const Program& program, const std::vector<TensorDesc>& inputs, int threads) {
  const ProgramInfo info(program);
  BindRequest request;
  request.threads = threads > 0 ? threads : std::max(1, program.threads);
  request.make_kernels = false;
  for (size_t i = 0; i < inputs.size(); ++i) request.inputs.emplace_back(program.inputs[i].buffer, inputs[i]);
  const std::unique_ptr<Binding> binding = bind(info, request);
  MemoryText plan;
  plan.arena_bytes = binding->arena_bytes;
  plan.lower_bound = binding->arena_lower_bound;
  plan.scratch_bytes = binding->scratch_bytes;
  plan.aliases = binding->aliases.size();
  for (const auto& [buffer, offset] : binding->in_arena) {
    const auto index = static_cast<size_t>(buffer);
    plan.placements.push_back({program.buffers[index].name, binding->slots[index].desc, offset});
  }
  std::stable_sort(plan.placements.begin(), plan.placements.end(),
                   [](const Placement& a, const Placement& b) { return a.offset < b.offset; });
  return plan;
}

std::string plan_text(const MemoryText& plan) {
  std::string text =
      fmt::format("arena {} for {} values, lower bound {}, scratch {}, {} values share another's memory\n",
                  bytes_text(static_cast<double>(plan.arena_bytes)), plan.placements.size(),
                  bytes_text(static_cast<double>(plan.lower_bound)),
                  bytes_text(static_cast<double>(plan.scratch_bytes)), plan.aliases);
  for (const Placement& p : plan.placements) {
    text += fmt::format("{:>12} {:>12}  {:<24} {}\n", p.offset, p.desc.bytes(),
                        fmt::format("{}{}", dtype_name(p.desc.dtype), p.desc.dims.to_string()), p.value);
  }
  return text;
}

std::string memory_text(const MemoryNeeds& needs) {
  const auto text = [](size_t bytes) { return bytes_text(static_cast<double>(bytes)); };
  return fmt::format("{}: constants {}, values {}, scratch {}, inputs {}, outputs {}", text(needs.total()),
                     text(needs.constants), text(needs.values), text(needs.scratch), text(needs.inputs),
                     text(needs.outputs));
}

Json memory_json(const MemoryNeeds& needs) {
  return {{"constants", needs.constants}, {"values", needs.values},   {"scratch", needs.scratch},
          {"inputs", needs.inputs},       {"outputs", needs.outputs}, {"total", needs.total()}};
}

Json plan_json(const MemoryText& plan) {
  Json values = Json::array();
  for (const Placement& p : plan.placements) {
    values.push_back({{"value", p.value}, {"offset", p.offset}, {"bytes", p.desc.bytes()}});
  }
  return {{"arena_bytes", plan.arena_bytes},
          {"lower_bound", plan.lower_bound},
          {"scratch_bytes", plan.scratch_bytes},
          {"aliases", plan.aliases},
          {"values", values}};
}

std::string program_text(const Program& program) {
  std::string text = fmt::format("program \"{}\": {} buffers, {} steps, {} blocks, threads {}\n", program.name,
                                 program.buffers.size(), program.steps.size(), program.blocks.size(), program.threads);
  for (size_t b = 0; b < program.blocks.size(); ++b) {
    const Block& block = program.blocks[b];
    text += fmt::format("block {} ({})\n", b, operand_names(program, block.inputs));
    for (int32_t i : block.steps) {
      const Step& s = program.steps[static_cast<size_t>(i)];
      text += fmt::format("  {:>4}  {} = {}({})", i, operand_names(program, s.outputs), s.op,
                          operand_names(program, s.inputs));
      std::string attributes;
      for (const auto& [name, value] : s.attrs.all()) {
        attributes += fmt::format("{}{}={}", attributes.empty() ? "" : ", ", name, attribute_to_string(value));
      }
      if (!attributes.empty()) text += " {" + attributes + "}";
      for (int32_t nested : s.blocks) text += fmt::format(" block {}", nested);
      text += fmt::format("  -> {}  by {}  @{}  from {}\n", first_output_type(program, s), tactic_name(s.tactic),
                          s.name, joined(s.origins));
    }
    text += fmt::format("  -> ({})\n", operand_names(program, block.outputs));
  }
  return text;
}

}  // namespace deepjit::cli
