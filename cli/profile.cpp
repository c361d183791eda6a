// deepjit profile: which step takes how long, what it does in that time, and what else a run's time is made of.
#include "profile/profile.h"

#include <fmt/format.h>

#include "cli/files.h"
#include "cli/run_flags.h"
#include "cli/text.h"
#include "cli/verb.h"
#include "profile/json.h"

namespace deepjit::cli {

namespace {

using profile::Part;
using profile::Profile;
using profile::StepRecord;

constexpr size_t kRows = 30;
constexpr size_t kOrigins = 3;

struct ProfileVerb {
  RunFlags flags;
  double warm_up_s = 1;
  std::string trace;
  bool all = false;

  int run();
  void print(const Profile& p, const std::string& range) const;
  void print_steps(const Profile& p) const;
  std::string origins(const StepRecord& r) const;
};

std::string tactic_of(const StepRecord& r) {
  if (r.provider == "control") return "control flow";
  return r.variant.empty() ? r.provider : r.provider + ":" + r.variant;
}

// "12.3" with a unit that fits, or "-" for nothing.
std::string amount(double value, const char* unit) {
  if (value <= 0) return "-";
  const char* prefixes[] = {"", "k", "M", "G", "T"};
  size_t i = 0;
  for (; value >= 999.5 && i + 1 < std::size(prefixes); ++i) value /= 1000;
  return fmt::format("{:.{}f} {}{}", value, value < 9.95 && i > 0 ? 1 : 0, prefixes[i], unit);
}

std::string fine_time(double us) { return us < 100 ? fmt::format("{:.2f} us", us) : time_text(us); }

std::string percent(double share) { return fmt::format("{:.1f}%", 100 * share); }

std::string ProfileVerb::origins(const StepRecord& r) const {
  std::string text;
  const size_t shown = all ? r.origins.size() : std::min(kOrigins, r.origins.size());
  for (size_t i = 0; i < shown; ++i) text += (i == 0 ? "" : ", ") + r.origins[i];
  if (shown < r.origins.size()) text += fmt::format(" and {} more", r.origins.size() - shown);
  return text.empty() ? r.name : text;
}

void ProfileVerb::print_steps(const Profile& p) const {
  size_t rows = 0, idle = 0;
  for (const StepRecord& r : p.steps) (r.calls > 0 ? rows : idle) += 1;
  const size_t shown = all ? rows : std::min(rows, kRows);
  size_t width = 6;
  for (size_t i = 0; i < shown; ++i) width = std::max(width, tactic_of(p.steps[i]).size());
  width = std::min<size_t>(width, 40);
  fmt::print("{:>5}  {:<22} {:>6} {:>11} {:>11} {:>6} {:>9} {:>9} {:>9} {:>11} {:>6}  {:<{}}  {}\n", "step", "op",
             "calls", "P50", "P95", "share", "bytes", "GB/s", "flop", "flop/s", "roof", "tactic", width, "from");
  for (size_t i = 0; i < shown; ++i) {
    const StepRecord& r = p.steps[i];
    fmt::print("{:>5}  {:<22} {:>6} {:>11} {:>11} {:>6} {:>9} {:>9} {:>9} {:>11} {:>6}  {:<{}}  {}\n",
               r.step < 0 ? std::string("-") : std::to_string(r.step), r.op, r.calls, fine_time(r.times.p50),
               fine_time(r.times.p95), percent(r.share), amount(r.bytes, "B"), fmt::format("{:.1f}", r.gb_s),
               amount(r.flops, ""), amount(r.gflop_s * 1e9, ""),
               r.of_roofline ? fmt::format("{:.0f}%{}", 100 * *r.of_roofline, r.bound == "memory" ? "m" : "c") : "-",
               tactic_of(r), width, origins(r));
  }
  if (shown < rows) {
    double rest = 0;
    for (size_t i = shown; i < rows; ++i) rest += p.steps[i].share;
    fmt::print("{:>5}  {} more steps, {} of the time (--all shows them)\n", "", rows - shown, percent(rest));
  }
  if (idle > 0) {
    fmt::print("{:>5}  {} steps took no time: views, shapes that are known, branches not taken\n", "", idle);
  }
}

void print_clocks(const char* when, const std::optional<device::Clocks>& clocks) {
  if (clocks) fmt::print("clocks      {}: {}\n", when, to_string(*clocks));
}

void print_parts(const Profile& p) {
  fmt::print("\n{:<22} {:>6} {:>11} {:>6}\n", "part of a run", "", "typical", "share");
  double sum = 0, shares = 0, profiling = 0;
  for (const Part& part : p.parts) {
    if (part.name == "profiling") {
      profiling = part.times.typical;
      continue;
    }
    sum += part.times.typical;
    shares += part.share;
    fmt::print("{:<22} {:>6} {:>11} {:>6}\n", part.name == "host" ? "host (dispatch)" : part.name, "",
               fine_time(part.times.typical), percent(part.share));
  }
  fmt::print("{:<22} {:>6} {:>11} {:>6}\n", "all", "", fine_time(sum), percent(shares));
  fmt::print("{:<22} {:>6} {:>11}\n", "and by profiling", "", fine_time(profiling));
}

void ProfileVerb::print(const Profile& p, const std::string& range) const {
  fmt::print("model       {} on {}, {} threads, {}{}\n", p.model, p.device, p.threads, p.precision,
             p.contexts > 1 ? fmt::format(", {} contexts at once", p.contexts) : "");
  if (!range.empty()) fmt::print("range       {}\n", range);
  fmt::print("measured    {} runs by {}, after {} of warming up{}\n", p.runs,
             p.method == "clock"   ? fmt::format("the CPU's clock ({:.0f} ns a step taken off)", p.clock_cost_us * 1000)
             : p.method == "cupti" ? "CUPTI, under graph replay"
                                   : "events, steps launched one by one",
             time_text(p.warm_up.seconds * 1e6), p.warm_up.stable ? "" : "; times were still changing");
  if (!p.note.empty()) fmt::print("note        {}\n", p.note);
  print_clocks("before", p.clocks_before);
  print_clocks("after", p.clocks_after);
  std::string copies;
  for (const auto& c : p.limits.copies) {
    copies += fmt::format("{}{:.0f} GB/s over {}", copies.empty() ? "" : ", ", c.gb_s, amount(c.bytes, "B"));
  }
  fmt::print("limits      copies {}{}\n", copies.empty() ? "not measured" : copies,
             p.limits.gflop_s > 0 ? fmt::format("; {:.0f} GFLOP/s of float32", p.limits.gflop_s) : "");
  fmt::print("wall        P50 {}  P95 {}, {} launches; without profiling P50 {}  P95 {}\n", time_text(p.wall.p50),
             time_text(p.wall.p95), p.launches, time_text(p.unprofiled.p50), time_text(p.unprofiled.p95));
  if (p.unprofiled_device) {
    fmt::print("on {:<8} P50 {}  P95 {}, the launches alone without profiling\n", p.device,
               fine_time(p.unprofiled_device->p50), fine_time(p.unprofiled_device->p95));
  }
  fmt::print("\n");
  print_steps(p);
  fmt::print("\n{:<22} {:>6} {:>11} {:>6}\n", "by op", "steps", "typical", "share");
  for (const profile::OpTotal& total : totals_by_op(p)) {
    fmt::print("{:<22} {:>6} {:>11} {:>6}\n", total.op, total.steps, fine_time(total.typical_us), percent(total.share));
  }
  print_parts(p);
}

int ProfileVerb::run() {
  profile::Options options;
  options.iterations = flags.iterations;
  options.seconds = flags.seconds;
  options.warm_up_s = warm_up_s;
  options.contexts = flags.contexts;
  profile::check(options);
  const Fed fed = open_and_feed(flags);
  options.threads = threads_per_context(flags, fed.model);
  const std::vector<TensorView> views = views_of(fed.inputs);
  Profile p = profile::profile(fed.model.engine, views, options);
  p.model = flags.model;
  if (!trace.empty()) write_file(trace, to_trace(p).dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
  if (flags.json) {
    Json json = to_json(p);
    json["shapes"] = shape_texts(fed.model.program(), fed.inputs);
    print_json(json);
  } else {
    const Program& all = fed.model.program();
    print(p, all.others.empty() ? "" : which_range(all, fed.model.engine->program_for(views)));
  }
  return 0;
}

}  // namespace

Verb add_profile(CLI::App& app) {
  auto verb = std::make_shared<ProfileVerb>();
  verb->flags.seconds = 2;
  CLI::App* command = app.add_subcommand("profile", "show which step takes how long, and what a run's time is made of");
  verb->flags.add_to(*command, profile::kMostIterations);
  command->add_option("--warm-up", verb->warm_up_s, "seconds to run before, at least [default: 1]")
      ->option_text("S")
      ->check(CLI::Range(0.0, 600.0));
  command->add_option("--trace", verb->trace, "write one run as a trace for Perfetto or chrome://tracing")
      ->option_text("FILE");
  command->add_flag("--all", verb->all, "show all steps, and all nodes that each came from");
  verb->flags.build.add_to(*command);
  command->footer("Example: deepjit profile m.dje --shapes x=1x3x224x224 --trace trace.json");
  return {command, [verb] { return verb->run(); }};
}

}  // namespace deepjit::cli
