#include "cli/build_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "cli/files.h"
#include "cli/npz.h"
#include "compiler/option_text.h"
#include "import/user_ops/registry.h"
#include "passes/pipeline.h"

namespace deepjit::cli {

const std::vector<OptionRow>& option_table() {
  static const std::vector<OptionRow> table = {
      {"--device", "DEVICE", "cpu", "where the engine runs: cpu, cuda, or cuda:N for one of several", true},
      {"--target", "LIST", "the GPU that is here, else sm_80 to sm_120", "GPUs to compile for, such as sm_80,sm_90",
       true},
      {"--device-only", "", "off", "of a GPU: a step that would run on the CPU is an error", true},
      {"--precision", "TYPE", "fp32",
       "what to compute in: fp32, or on a GPU tf32 (products round their operands), fp16 or bf16 where that is safe",
       true},
      {"--calib", "FILE.npz", "none", "sample inputs by name, to see which values fit fp16 or bf16; repeatable", true},
      {"--range", "NAME=MIN:OPT:MAX", "any shape",
       "shapes of an input, such as x=1x3x224x224:8x3x224x224:32x3x224x224, or one shape; repeatable: for the same "
       "input "
       "again it starts another range, tuned by itself (docs/ranges.md)",
       true},
      {"--threads", "N", "0", "CPU threads; 0 takes all cores", true},
      {"-O", "LEVEL", "3",
       "0: no passes, 1: cleanup, 2: rewrites and fusion, 3: all; 0 and 1 measure nothing on a GPU: the engine is "
       "ready "
       "in seconds, and deepjit tune measures it later",
       true},
      {"--disable", "PASS", "none", "switches a pass off; repeatable", true},
      {"--no-tune", "", "off", "measures nothing: the reference runs every step", true},
      {"--tune-cache", "FOLDER", "none", "keeps measurements between builds", true},
      {"--lock", "FILE", "none", "takes the choices in this lockfile when it exists; written after the build", true},
      {"--ops", "FILE", "none", "defines operators of the model as expressions, in JSON; repeatable", true},
      {"--build-budget", "TIME", "none", "ends tuning after this time, such as 30s, 500ms or 2m", true},
      {"--force-tactic", "TACTIC", "none", "takes PROVIDER or PROVIDER:VARIANT wherever it is offered and right", true},
      {"--kernel-tolerance", "ERROR", "by type",
       "largest relative error of a kernel: 1e-3 for 16-bit floats (or one unit in the last place), 1e-10 for float64, "
       "1e-5 for the rest",
       true},
      {"--stop-after", "STAGE", "none", "stops after import, passes, lower, tune or plan; writes no engine", false},
      {"--verbose", "", "off", "prints what was measured and why it was chosen", false},
  };
  return table;
}

namespace {

const OptionRow& row(const std::string& flag) {
  for (const OptionRow& r : option_table()) {
    if (flag == r.flag) return r;
  }
  throw Error(Code::INTERNAL, "no option row for " + flag);
}

std::string doc(const std::string& flag) {
  const OptionRow& r = row(flag);
  return fmt::format("{} [default: {}]", r.doc, r.fallback);
}

std::vector<std::string> split_commas(const char* text) {
  std::vector<std::string> words;
  std::string word;
  for (const char* c = text ? text : ""; *c; ++c) {
    if (*c == ',') {
      words.push_back(word);
      word.clear();
    } else if (*c != ' ') {
      word += *c;
    }
  }
  words.push_back(word);
  words.erase(std::remove(words.begin(), words.end(), ""), words.end());
  return words;
}

double parse_seconds(const std::string& text) {
  if (text.empty()) return 0;
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  const std::string unit = end;
  const double scale = unit.empty() || unit == "s" ? 1 : unit == "ms" ? 1e-3 : unit == "m" ? 60 : 0;
  if (end == text.c_str() || scale == 0 || !(value > 0) || value > 1e9) {
    throw Error(Code::ARGUMENT, "\"" + text + "\" is not a time", "write it like 30s, 500ms or 2m");
  }
  return value * scale;
}

void check_stage(const std::string& name) {
  static const std::set<std::string> stages = {"", "import", "passes", "lower", "tune", "plan"};
  if (!stages.count(name)) {
    throw Error(Code::ARGUMENT, "there is no stage \"" + name + "\"",
                "the stages are import, passes, lower, tune, plan");
  }
}

}  // namespace

void BuildFlags::add_to(CLI::App& app) {
  auto add = [&](const char* flag, auto& target) {
    return app.add_option(flag, target, doc(flag))->option_text(row(flag).argument)->group("Build");
  };
  add("--device", device);
  add("--target", targets);
  app.add_flag("--device-only", device_only, doc("--device-only"))->group("Build");
  add("--precision", precision);
  add("--calib", calib)->allow_extra_args(false);
  add("--range", ranges)->allow_extra_args(false);
  add("--threads", threads)->check(CLI::Range(0, 4096));
  add("-O", level)->check(CLI::Range(0, 3));
  add("--disable", disabled)->allow_extra_args(false);
  app.add_flag("--no-tune", no_tune, doc("--no-tune"))->group("Build");
  add("--tune-cache", tune_cache);
  add("--lock", lock);
  add("--ops", ops)->allow_extra_args(false);
  add("--build-budget", budget);
  add("--force-tactic", force_tactic);
  add("--kernel-tolerance", tolerance)->check(CLI::Range(1e-15, 1.0));
  app.add_flag("--verbose", verbose, doc("--verbose"))->group("Build");
}

void BuildFlags::add_tuning_to(CLI::App& app) {
  const auto add = [&](const char* flag, auto& target, const std::string& text) {
    return app.add_option(flag, target, text)->option_text(row(flag).argument)->group("Tuning");
  };
  add("--device", device, "one of the engine's kind, such as cuda:1 [default: the first]");
  add("--target", targets, "GPUs to compile for [default: the one that is here]");
  add("--range", ranges, "shapes of an input, not beyond what the engine was built for [default: the engine's]")
      ->allow_extra_args(false);
  add("--threads", threads, "CPU threads [default: the engine's, at most as many as there are cores]")
      ->check(CLI::Range(0, 4096));
  add("--tune-cache", tune_cache, doc("--tune-cache"));
  add("--lock", lock, doc("--lock"));
  add("--build-budget", budget, doc("--build-budget"));
  add("--force-tactic", force_tactic, doc("--force-tactic"));
  add("--kernel-tolerance", tolerance, doc("--kernel-tolerance"))->check(CLI::Range(1e-15, 1.0));
  app.add_flag("--verbose", verbose, doc("--verbose"))->group("Tuning");
}

void BuildFlags::add_stop_after(CLI::App& app) {
  const char* flag = "--stop-after";
  app.add_option(flag, stop_after, doc(flag))->option_text(row(flag).argument)->group("Build");
}

BuildOptions BuildFlags::options(Progress& progress) const {
  BuildOptions o;
  for (const std::string& path : ops) register_ops_file(path);
  o.device = device.empty() ? "cpu" : device;
  o.targets = targets;
  o.device_only = device_only;
  o.precision = precision;
  for (const std::string& path : calib) o.calib.push_back(read_npz(path));
  o.threads = threads;
  o.level = level;
  for (const std::string& text : ranges) {
    const auto [input, range] = parse_range(text);
    add_range(input, range, o.ranges, o.more_ranges);
  }
  o.disabled_passes.insert(disabled.begin(), disabled.end());
  for (const std::string& name : split_commas(std::getenv("DEEPJIT_DISABLE"))) o.disabled_passes.insert(name);
  for (const std::string& name : o.disabled_passes) check_switchable(name);
  check_stage(stop_after);
  o.stop_after = stop_after;
  o.tune_cache = tune_cache;
  std::error_code ignored;
  if (!lock.empty() && std::filesystem::exists(lock, ignored)) o.lock_text = read_file(lock);
  o.force_tactic = force_tactic;
  if (const char* force = std::getenv("DEEPJIT_FORCE_TACTIC"); force != nullptr && force_tactic.empty()) {
    o.force_tactic = force;
  }
  o.tolerance = tolerance;
  o.budget_s = parse_seconds(budget);
  o.tune = !no_tune;
  o.progress = [&progress](const std::string& stage, size_t done, size_t total) {
    progress.update(stage, done, total);
  };
  if (verbose) o.log = [&progress](const std::string& line) { progress.line(line); };
  const std::set<std::string> kinds = dump_kinds();
  if (kinds.count("graph") || kinds.count("import") || kinds.count("passes")) {
    o.dump = [kinds, number = std::make_shared<int>(0)](const std::string& stage, const std::string& text) {
      const bool pass = stage.rfind("pass:", 0) == 0;
      if (!kinds.count(pass ? "passes" : stage)) return;
      write_dump(pass ? fmt::format("pass{:02}_{}", (*number)++, stage.substr(5)) : stage, text);
    };
  }
  return o;
}

void register_ops_file(const std::string& path) {
  try {
    register_user_ops(read_file(path));
  } catch (const Error& e) {
    throw e.with_prefix(path + ": ");
  }
}

std::set<std::string> dump_kinds() {
  static const std::set<std::string> known = {"import", "passes", "graph", "program", "tactics", "plan"};
  std::set<std::string> kinds;
  for (const std::string& kind : split_commas(std::getenv("DEEPJIT_DUMP"))) {
    if (!known.count(kind)) {
      throw Error(Code::ARGUMENT, "DEEPJIT_DUMP has the unknown kind \"" + kind + "\"",
                  "the kinds are import, passes, graph, program, tactics and plan");
    }
    kinds.insert(kind);
  }
  return kinds;
}

void write_dump(const std::string& name, const std::string& text) {
  const char* folder = std::getenv("DEEPJIT_DUMP_DIR");
  if (folder == nullptr || *folder == '\0') {
    fmt::print(stderr, "---- {}\n{}\n", name, text);
    return;
  }
  std::error_code ignored;
  std::filesystem::create_directories(folder, ignored);
  write_file((std::filesystem::path(folder) / (name + ".txt")).string(), text);
}

}  // namespace deepjit::cli
