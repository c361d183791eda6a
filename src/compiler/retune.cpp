#include "compiler/retune.h"

#include <omp.h>

#include <algorithm>
#include <chrono>

#include "compiler/option_text.h"
#include "compiler/packed_constants.h"
#include "compiler/prologues.h"
#include "compiler/shapes.h"
#include "compiler/tuning.h"
#include "device/device.h"
#include "kernels/kernel.h"
#include "lower/combos.h"
#include "program/ranges.h"

namespace deepjit {

namespace {

std::string metadata_of(const Program& program, const std::string& key, const std::string& fallback) {
  const auto found = program.metadata.find(key);
  return found == program.metadata.end() ? fallback : found->second;
}

// Constants of which only packed forms are left.
void unpack_constants(Program& program) {
  for (const Step& step : program.steps) {
    for (const PackedOperand& packed : step.tactic.packed) unpack_constant(program, step, packed);
  }
}

// The program as lowering left it. `edges`: the ledger of that time.
void restore_lowered(Program& program, const std::vector<LedgerEntry>& edges) {
  unpack_constants(program);
  program.ledger = edges;
  part_launches(program);
  part_all_prologues(program);
  for (Block& block : program.blocks) std::sort(block.steps.begin(), block.steps.end());  // as lowering numbers them
  for (Step& step : program.steps) step.tactic = {};
  program.metadata.erase("build.host_steps");
}

void narrow_range(ProgramInput& input, const TensorType& type, const ShapeRange& range) {
  const std::string what = "range of input \"" + input.name + "\"";
  check_range(input.name, type, range);
  for (int i = 0; input.has_range && i < range.min.rank(); ++i) {
    if (range.min[i] >= input.range.min[i] && range.max[i] <= input.range.max[i]) continue;
    throw Error(Code::ARGUMENT,
                what + ", dimension " + std::to_string(i) + ": the engine was built for " +
                    std::to_string(input.range.min[i]) + " to " + std::to_string(input.range.max[i]),
                "tuning can narrow a range; to widen it, build the engine again");
  }
  input.has_range = true;
  input.range = range;
}

void narrow_ranges(Program& program, const std::map<std::string, ShapeRange>& ranges) {
  if (!ranges.empty() && !program.others.empty()) {
    throw Error(Code::ARGUMENT, "the engine has several shape ranges, and each is tuned at its own: none can be given");
  }
  for (const auto& [name, range] : ranges) {
    const auto it = std::find_if(program.inputs.begin(), program.inputs.end(),
                                 [&wanted = name](const ProgramInput& input) { return input.name == wanted; });
    if (it == program.inputs.end()) {
      throw Error(Code::ARGUMENT, "there is a range for \"" + name + "\", but no such input");
    }
    narrow_range(*it, program.buffers[static_cast<size_t>(it->buffer)].type, range);
  }
}

// The device to measure on: of the engine's kind, and here.
void set_device(const Program& program, BuildOptions& options) {
  const std::string own = metadata_of(program, "build.device", "cpu");
  if (options.device.empty()) options.device = own;
  const std::string kind = device::kind_of(own);
  if (device::kind_of(options.device) != kind) {
    throw Error(Code::ENGINE_INCOMPATIBLE,
                "the engine was built for " + kind + ", it cannot be tuned for " + options.device,
                "build it from its model with --device " + options.device);
  }
  if (kind == "null") {
    throw Error(Code::ARGUMENT, "the engine was built for the null device, which computes nothing to measure");
  }
  if (kind == "cpu") return;
  device::open(options.device);  // throws where there is none
  options.device_only = program.metadata.count("build.device_only") != 0;
}

int threads_of(const Program& program, int wanted) {
  if (wanted > 0) return wanted;
  const int here = omp_get_num_procs();
  return program.threads > 0 ? std::min<int>(program.threads, here) : here;
}

}  // namespace

BuildResult tune_engine(EngineFile engine, BuildOptions options) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  BuildResult result;
  const auto stage = [&](const std::string& name, const auto& body) {
    if (options.progress) options.progress(name, 0, 0);
    const auto before = Clock::now();
    body();
    result.report.stages.push_back({name, std::chrono::duration<double>(Clock::now() - before).count()});
  };
  if (!options.more_ranges.empty()) {
    throw Error(Code::ARGUMENT, "tuning takes one range of an input", "for several, build the engine again");
  }
  set_device(engine.program, options);
  options.tune = true;
  options.level = 3;  // which measures
  options.disabled_passes.merge(parse_names(metadata_of(engine.program, kDisabledKey, "")));
  const BuildDevice device = find_device(options);
  const int threads = threads_of(engine.program, options.threads);
  stage("restore", [&] {
    narrow_ranges(engine.program, options.ranges);
    for (Program* program : programs_of(engine.program)) {
      restore_lowered(*program, engine.edges);
      program->threads = threads;
      note_device(program->metadata, device, options);
    }
    result.file = std::move(engine);
  });
  stage("tune", [&] { tune_program(result, device, options); });
  stage("plan", [&] { plan_program(result); });
  result.report.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return result;
}

}  // namespace deepjit
