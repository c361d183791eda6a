// The options of a build, shared by every verb that takes a model.
//
// option_table() is the one list of them: it feeds --help and docs/options.md (tools/gen_docs.py reads it).
// The environment adds DEEPJIT_DISABLE, DEEPJIT_FORCE_TACTIC, DEEPJIT_DUMP and DEEPJIT_DUMP_DIR.
#pragma once

#include <CLI/CLI.hpp>
#include <set>
#include <string>
#include <vector>

#include "cli/progress.h"
#include "compiler/build.h"

namespace deepjit::cli {

struct OptionRow {
  const char* flag;
  const char* argument;  // what it takes; empty for a switch
  const char* fallback;  // the default, as text
  const char* doc;
  bool changes_engine;  // whether it can change the engine's bytes
};

const std::vector<OptionRow>& option_table();

struct BuildFlags {
  std::string device;  // empty: the CPU for a build, what it was built for to run an engine
  std::string targets;
  std::string precision = "fp32";
  std::vector<std::string> calib;  // .npz files
  std::vector<std::string> ranges;
  std::vector<std::string> disabled;
  std::string tune_cache;
  std::string lock;
  std::vector<std::string> ops;  // files that define ops
  std::string budget;
  std::string force_tactic;
  double tolerance = 0;
  std::string stop_after;
  int level = 3;
  int threads = 0;
  bool device_only = false;
  bool no_tune = false;
  bool verbose = false;

  void add_to(CLI::App& app);
  // Those that tuning a saved engine has too.
  void add_tuning_to(CLI::App& app);
  void add_stop_after(CLI::App& app);
  // Checks the values, reads the lockfile and the environment. The options refer to `progress`.
  BuildOptions options(Progress& progress) const;
};

// Registers the ops that a file defines (docs/user_ops.md).
void register_ops_file(const std::string& path);

// The kinds in DEEPJIT_DUMP. Throws ARGUMENT for an unknown one.
std::set<std::string> dump_kinds();
// Writes one dump: to DEEPJIT_DUMP_DIR when it is set, else to stderr.
void write_dump(const std::string& name, const std::string& text);

}  // namespace deepjit::cli
