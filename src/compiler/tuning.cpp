#include "compiler/tuning.h"

#include <omp.h>

#include <algorithm>
#include <chrono>

#include "base/clock.h"
#include "compiler/combos.h"
#include "compiler/device_steps.h"
#include "compiler/ledger.h"
#include "compiler/option_text.h"
#include "compiler/prologues.h"
#include "device/device.h"
#include "program/ranges.h"

namespace deepjit {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kMeasuringLevel = 2;  // of a GPU

// Kernels of the CPU are measured with the threads that the engine will use.
class OmpThreads {
 public:
  explicit OmpThreads(int threads) : before_(omp_get_max_threads()) { omp_set_num_threads(threads); }
  ~OmpThreads() { omp_set_num_threads(before_); }
  OmpThreads(const OmpThreads&) = delete;
  OmpThreads& operator=(const OmpThreads&) = delete;

 private:
  int before_;
};

// "range 2: " where there are several.
std::string of_range(const BuildResult& result, const Program& program) {
  const std::vector<const Program*> all = programs_of(result.file.program);
  const auto place = std::find(all.begin(), all.end(), &program) - all.begin();
  return all.size() == 1 ? "" : "range " + std::to_string(place + 1) + ": ";
}

// A guess may be far from what the user runs: they get to know.
void warn_about_guesses(const Program& program, const Probe& probed, BuildResult& result) {
  std::string text = probed.failure.empty() ? "tuned at guessed shapes" : "no guessed shape fits the model";
  for (size_t i = 0; i < probed.shapes.size(); ++i) {
    text += (i ? ", " : ": ") + program.inputs[i].name + "=" + probed.shapes[i].dims.to_string();
  }
  if (!probed.failure.empty()) text += " (" + probed.failure + ")";
  result.report.warnings.push_back(of_range(result, program) + text + "; give your own with --range NAME=min:opt:max");
}

TuneOptions tune_options_of(const Program& program, const BuildDevice& device, const BuildOptions& options) {
  TuneOptions result;
  if (device.is_gpu()) {
    result.device = "cuda";
    result.present = device.here;
    result.architectures = device.architectures;
    result.measure = device.unseen.empty();
  }
  result.threads = program.threads;
  result.cache_dir = options.tune_cache;
  result.lock_text = options.lock_text;
  result.force_tactic = options.force_tactic;
  result.tolerance = options.tolerance;
  result.log = options.log;
  if (options.progress) {
    result.progress = [&options](size_t done, size_t total) { options.progress("tune", done, total); };
  }
  return result;
}

// `before`: of the ranges before this one.
TuneReport choose_tactics(Program& program, const Probe& probed, const BuildDevice& device, const BuildOptions& options,
                          double budget_s, TuneReport before) {
  TuneOptions tune_options = tune_options_of(program, device, options);
  tune_options.budget_s = budget_s;
  const OmpThreads threads(program.threads);
  const auto start = Clock::now();
  TuneReport report = device.is_gpu()
                          ? tune_both_sides(program, probed.tasks, tune_options, options.tune, std::move(before))
                          : tune(program, probed.tasks, tune_options, std::move(before));
  const auto time_is_left = [&] {
    if (budget_s > 0) tune_options.budget_s = budget_s - seconds_since(start);
    return budget_s <= 0 || tune_options.budget_s > 0;
  };
  if (options.disabled_passes.count(kPrologues) == 0 && time_is_left()) {
    report = tune_prologues(program, tune_options, std::move(report));
  }
  if (options.disabled_passes.count(kCombos) != 0 || !time_is_left()) return report;
  return tune_combos(program, probed, tune_options, std::move(report));
}

HostSteps tell_host_steps(BuildResult& result, Program& program, const Probe& probed, const BuildOptions& options) {
  HostSteps host = find_host_steps(program, probed.shapes, result.report.tuning.refused);
  if (options.device_only) refuse_host_steps(program, host, options.device);
  const std::string summary = host.summary(program);
  if (summary.empty()) return host;
  program.metadata["build.host_steps"] = summary;
  result.report.warnings.push_back(of_range(result, program) + "on the CPU run " + summary +
                                   "; inspect --why names the values that are copied for them");
  for (int32_t step : host.steps) {
    if (!options.log) break;
    const Step& own = program.steps[static_cast<size_t>(step)];
    options.log(own.name + " " + own.op + ": runs on the CPU: " + host.reasons.at(step));
  }
  return host;
}

void tune_range(BuildResult& result, Program& program, const BuildDevice& device, const BuildOptions& options,
                double budget_s) {
  bool guessed = false;
  const Probe probed = probe(program, Which::OPT, program.threads, &guessed);
  if (!probed.failure.empty() || guessed) warn_about_guesses(program, probed, result);
  if (!options.tune && !device.is_gpu()) return finish_ledger(program, probed, nullptr, {});
  TuneReport& report = result.report.tuning;
  report.refused.clear();  // of the steps of another program
  report.unfused.clear();
  report = choose_tactics(program, probed, device, options, budget_s, std::move(report));
  HostSteps host;
  if (device.is_gpu() && probed.failure.empty()) host = tell_host_steps(result, program, probed, options);
  finish_ledger(program, probed, &report, host);
}

}  // namespace

BuildDevice find_device(const BuildOptions& options) {
  BuildDevice found;
  found.kind = device::kind_of(options.device);
  if (!found.is_gpu()) {
    if (!options.targets.empty()) throw Error(Code::ARGUMENT, "--target is for GPUs: add --device cuda");
    if (options.device_only) throw Error(Code::ARGUMENT, "--device-only is for GPUs: add --device cuda");
    return found;
  }
  found.architectures = parse_targets(options.targets);
  if (found.kind == "null") {  // computes nothing, so nothing can be measured on it
    if (found.architectures.empty()) found.architectures = {device::open(options.device)->info().architecture};
    found.unseen = "the null device computes nothing";
    return found;
  }
  try {
    if (options.tune) found.here = device::open(options.device);
    if (!options.tune) found.unseen = "tuning is off";
  } catch (const Error& e) {
    found.unseen = e.message();
  }
  if (found.here != nullptr && found.architectures.empty()) {
    found.architectures = {found.here->info().architecture};
  }
  if (found.here != nullptr && options.level < kMeasuringLevel) {
    found.unseen = "-O" + std::to_string(options.level) + " measures nothing on a GPU; deepjit tune does";
  }
  if (found.architectures.empty()) found.architectures = {80, 86, 89, 90, 100, 120};
  return found;
}

void note_device(std::map<std::string, std::string>& metadata, const BuildDevice& device, const BuildOptions& options) {
  metadata["build.device"] = device.kind == "null" ? options.device : device.kind;
  if (!options.disabled_passes.empty()) metadata[kDisabledKey] = names_text(options.disabled_passes);
  if (!device.is_gpu()) {
    metadata["build.measured"] = options.tune ? "on " + cpu_model() : "no: the reference runs every step";
    return;
  }
  metadata["build.targets"] = targets_text(device.architectures);
  if (options.device_only) metadata["build.device_only"] = "yes";
  metadata["build.measured"] = device.unseen.empty()
                                   ? "on " + device.here->info().model
                                   : "no: kernels are compiled, not run or compared (" + device.unseen + ")";
}

void tune_program(BuildResult& result, const BuildDevice& device, const BuildOptions& options) {
  const std::vector<Program*> programs = programs_of(result.file.program);
  if (!device.unseen.empty()) {
    result.report.warnings.push_back("kernels for " + options.device +
                                     " are compiled, not run or compared: " + device.unseen);
  }
  const auto start = Clock::now();
  for (size_t k = 0; k < programs.size(); ++k) {
    double budget_s = 0;
    if (options.budget_s > 0) {
      budget_s = std::max(1e-9, (options.budget_s - seconds_since(start)) / static_cast<double>(programs.size() - k));
    }
    tune_range(result, *programs[k], device, options, budget_s);
  }
  if (!options.tune && !device.is_gpu()) return;
  result.file.lock_text = result.report.tuning.lock_text;
  share_equal_data(result.file.program);
}

void plan_program(BuildResult& result) {
  BuildReport& report = result.report;
  for (Program* program : programs_of(result.file.program)) {
    bool guessed = false;
    const Probe planned = probe(*program, Which::MAX, program->threads, &guessed);
    report.arena_bytes = std::max(report.arena_bytes, planned.arena_bytes);
    report.arena_lower_bound = std::max(report.arena_lower_bound, planned.arena_lower_bound);
    program->metadata["plan.arena_bytes"] = std::to_string(planned.arena_bytes);
    program->metadata["plan.lower_bound"] = std::to_string(planned.arena_lower_bound);
    if (const auto launches = count_launches(*program, planned.shapes, program->threads)) {
      program->metadata["plan.launches"] = std::to_string(*launches);
    }
  }
}

}  // namespace deepjit
