// Chooses a tactic for every step by measuring on this machine.
//
// Stands between lowering and the engine file. For each step at concrete shapes it asks every provider for
// offers, makes each kernel, verifies it against the reference (random values; for pointwise steps also NaN,
// infinities, zeros of both signs, subnormals, extremes and ties; for regions also at odd sizes), and times the ones
// that agree, interleaved. The fastest wins; among those that the measured noise cannot tell apart the smallest name
// wins, so that the order of offers never decides. A wrong candidate is dropped and named in the log.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "codegen/refusal.h"
#include "device/device.h"
#include "kernels/kernel.h"
#include "program/program.h"

namespace deepjit {

// One step at the shapes to tune for.
struct TuneTask {
  int32_t step = -1;
  std::vector<TensorDesc> inputs;
  std::vector<TensorDesc> outputs;
  std::vector<Tensor> constants;    // undefined where the operand is no constant
  std::vector<TuneTask> body = {};  // of a region: the steps that it stands for
};

// The two sides of a provider.
struct Provider {
  const Offerer* offerer = nullptr;
  const Launcher* launcher = nullptr;
};

struct TuneOptions {
  std::string device = "cpu";  // the kind: only its providers are asked
  // Of a GPU. `present` is the one to verify and measure on; without it choices are the providers' first, neither
  // verified nor timed. Kernels are compiled for all `architectures`.
  std::shared_ptr<device::Device> present = nullptr;
  std::vector<int> architectures = {};
  bool cold_constants = false;  // set by tune(): see constants_are_cold
  // With `present`: false: the providers' first choices are taken all the same, those of libraries, which compile next
  // to nothing, before the others.
  bool measure = true;
  int threads = 1;
  double budget_s = 0;       // 0: no limit. Steps not reached in time keep the reference
  std::string cache_dir;     // of choices and compiled kernels; empty: no cache
  std::string lock_text;     // choices to reuse, from an earlier build
  std::string force_tactic;  // "provider" or "provider:variant": taken wherever it is offered and right
  double tolerance = 0;      // largest relative error that passes verification; 0: by type, see tolerance_of
  std::vector<Provider> more_providers = {};    // besides the built-in ones
  std::function<void(const std::string&)> log;  // lab-book lines
  std::function<void(size_t done, size_t total)> progress;
};

// What was decided for one kind of step; a line of the lockfile.
struct Choice {
  std::string fingerprint;  // 32 hex digits over everything that the choice depends on
  std::string op;
  std::string tactic;  // "provider:variant"
  double time_us = 0;
  double spread_us = 0;
  double max_error = 0;
  Why why = Why::NONE;  // of a region that runs step by step: why
  double figure = 0;    // for that: the time of its best kernel, or a wrong one's error
};

struct TuneReport {
  std::vector<Choice> choices;  // one per distinct fingerprint, sorted by it
  size_t measured = 0;          // fingerprints timed now
  size_t reused = 0;            // taken from lockfile or cache
  size_t out_of_budget = 0;
  int kernels_compiled = 0;  // generated kernels that were compiled now
  int kernels_loaded = 0;    // ... that the cache had
  double compile_s = 0;      // spent compiling, over all threads
  // Of a GPU here: the kinds of steps whose kernels are far from what it can do, and those that look better than can be
  // (roofline.h), a line each.
  std::vector<std::string> flagged = {}, suspicious = {};
  std::string lock_text;
  // Of a GPU: steps that got no kernel, and why.
  std::map<int32_t, std::string> refused = {};
  std::map<int32_t, Refusal> unfused = {};  // regions that run step by step, by step
};

// Sets the tactic of every step that has a task and packs its constants; then drops constants that only
// packed forms need. `before` is what an earlier call for the same program, or for one of the
// same engine, reported: its choices hold, and both are told as one.
TuneReport tune(Program& program, const std::vector<TuneTask>& tasks, const TuneOptions& options,
                TuneReport before = {});

// The largest relative error that passes by default: 1e-3 for float16 and bfloat16, 1e-10 for float64, 1e-5 for the
// rest. One unit in the last place of a 16-bit float passes whatever the tolerance.
double tolerance_of(DType type);

// The text that fingerprints a task: op, attributes, shapes, dtypes, threads, CPU or GPU, library versions, whether
// constants are measured cold, and the tolerance when it is the user's own.
std::string fingerprint_text(const Program& program, const TuneTask& task, const TuneOptions& options);

// What of a GPU and its driver decides times; not the clocks of the moment.
std::string gpu_text(const device::Info& info);

// The CPU that is here, as it calls itself.
std::string cpu_model();

std::string write_lock(const std::vector<Choice>& choices);
// Throws Error(ARGUMENT) with the line number for a line that is not understood.
std::map<std::string, Choice> read_lock(const std::string& text);

}  // namespace deepjit
