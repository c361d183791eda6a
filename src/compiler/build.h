// The build driver: the only place that knows all stages. build.cpp tells the whole story on one page; tuning.h is the
// part of it that a saved engine can go through again.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "compiler/calibrate.h"
#include "engine/format.h"
#include "passes/pass.h"
#include "tune/tuner.h"

namespace deepjit {

struct UserOp;

struct BuildOptions {
  std::string device = "cpu";  // cpu, cuda, cuda:N
  bool device_only = false;    // of a GPU: a step that would run on the CPU is an error
  std::string targets;         // GPUs to compile for, such as "sm_80,sm_90"; empty: the one that is here
  std::string precision = "fp32";
  std::vector<Sample> calib;                 // sample inputs: which values fit 16 bits
  int threads = 0;                           // 0: all cores
  int level = 3;                             // -O0 .. -O3
  std::map<std::string, ShapeRange> ranges;  // by input name
  // Of an engine with several ranges: those of an input after its first. Inputs that have none keep theirs in all.
  std::map<std::string, std::vector<ShapeRange>> more_ranges;
  std::set<std::string> disabled_passes;
  std::string tune_cache;  // folder; empty: none
  std::string lock_text;
  std::string force_tactic;
  double tolerance = 0;                    // largest relative error of a kernel; 0: by type
  double budget_s = 0;                     // for tuning; 0: no limit
  bool tune = true;                        // false: the reference everywhere
  std::string model_folder;                // where external data may lie; empty: no external data
  std::string stop_after;                  // a stage name, for debugging; empty: build to the end
  std::shared_ptr<const UserOp> user_op;   // known besides the registered ones
  std::vector<std::string> extra_outputs;  // values of the imported graph that become outputs, after its own

  std::function<void(const std::string& stage, size_t done, size_t total)> progress;
  std::function<void(const std::string& line)> log;                             // details, for --verbose
  std::function<void(const std::string& stage, const std::string& text)> dump;  // DEEPJIT_DUMP
};

struct StageTime {
  std::string stage;
  double seconds;
};

struct BuildReport {
  std::vector<StageTime> stages;
  PassReport passes;
  TuneReport tuning;
  size_t arena_bytes = 0;  // at the largest of ranges' maxima, or at the tuned shapes without a range
  size_t arena_lower_bound = 0;
  std::vector<std::string> warnings;
  double seconds = 0;
};

struct BuildResult {
  EngineFile file;
  BuildReport report;
};

// Builds an engine from a model's bytes. Throws Error.
BuildResult build(std::span<const uint8_t> model, const BuildOptions& options);
// Reads the file and sets options.model_folder to its folder when that is empty.
BuildResult build_file(const std::string& path, BuildOptions options);

}  // namespace deepjit
