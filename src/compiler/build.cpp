// model -> import -> GRAPH -> passes -> GRAPH -> lower -> PROGRAM -> tune -> plan -> ENGINE
#include "compiler/build.h"

#include <omp.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "base/file.h"
#include "compiler/combos.h"
#include "compiler/device_steps.h"
#include "compiler/ledger.h"
#include "compiler/shapes.h"
#include "device/device.h"
#include "graph/print.h"
#include "import/importer.h"
#include "lower/lower.h"
#include "passes/pipeline.h"
#include "precision/autocast.h"
#include "precision/precision.h"
#include "program/precision_notes.h"
#include "program/user_ops.h"

namespace deepjit {

namespace {

constexpr const char* kRegions = "regions";
constexpr const char* kCombos = "combos";

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// One build at work: holds what the stages hand on and what the report says.
class Build {
 public:
  explicit Build(const BuildOptions& options) : options_(options) {
    find_device();
    precision_ = parse_precision(options.precision);
    if (precision_ != Precision::FP32 && kind_ == "cpu") {
      throw Error(Code::ARGUMENT, "precision \"" + options.precision + "\" is not available on the CPU yet",
                  "use fp32, or --device cuda; a model that has float16 or bfloat16 types itself runs as it is");
    }
    if (options.level < 0 || options.level > 3) throw Error(Code::ARGUMENT, "the level must be 0, 1, 2 or 3");
    if (!(options.tolerance >= 0 && options.tolerance <= 1)) {
      throw Error(Code::ARGUMENT, "the tolerance must lie between 0 and 1", "1e-5 is usual for float32");
    }
    if (!options.calib.empty() && !narrow_type(precision_)) {
      throw Error(Code::ARGUMENT, "calibration samples have no use in " + options.precision, "use fp16 or bf16");
    }
    threads_ = options.threads > 0 ? options.threads : omp_get_num_procs();
  }

  // For a GPU: what to compile for, and the GPU itself where this machine has it.
  void find_device() {
    kind_ = device::kind_of(options_.device);
    if (kind_ == "cpu") {
      if (!options_.targets.empty()) throw Error(Code::ARGUMENT, "--target is for GPUs: add --device cuda");
      if (options_.device_only) throw Error(Code::ARGUMENT, "--device-only is for GPUs: add --device cuda");
      return;
    }
    architectures_ = parse_targets(options_.targets);
    if (kind_ == "null") {  // computes nothing, so nothing can be measured on it
      if (architectures_.empty()) architectures_ = {device::open(options_.device)->info().architecture};
      unseen_ = "the null device computes nothing";
      return;
    }
    try {
      if (options_.tune) gpu_ = device::open(options_.device);
      if (!options_.tune) unseen_ = "tuning is off";
    } catch (const Error& e) {
      unseen_ = e.message();
    }
    if (gpu_ != nullptr && architectures_.empty()) architectures_ = {gpu_->info().architecture};
    if (architectures_.empty()) architectures_ = {80, 86, 89, 90, 100, 120};
  }

  BuildResult run(std::span<const uint8_t> model) {
    const auto start = Clock::now();
    stage("import", [&] { import(model); });
    stage("passes", [&] { optimise(); });
    stage("lower", [&] { lower_graph(); });
    stage("tune", [&] { tune_steps(); });
    stage("plan", [&] { plan(); });
    result_.report.seconds = seconds_since(start);
    return std::move(result_);
  }

 private:
  template <typename F>
  void stage(const std::string& name, F&& body) {
    if (stopped_) return;
    if (options_.progress) options_.progress(name, 0, 0);
    const auto start = Clock::now();
    body();
    result_.report.stages.push_back({name, seconds_since(start)});
    stopped_ = options_.stop_after == name;
  }

  void import(std::span<const uint8_t> model) {
    ImportOptions import_options;
    import_options.folder = options_.model_folder;
    import_options.user_op = options_.user_op;
    model_ = import_onnx(model, import_options);
    apply_ranges(*model_.graph, options_.ranges);
    add_extra_outputs(*model_.graph);
    result_.file.graph_text = "before passes:\n" + print_graph(*model_.graph);
    dump("import", print_graph(*model_.graph));
  }

  void add_extra_outputs(Graph& graph) const {
    if (options_.extra_outputs.empty()) return;
    std::map<std::string, Value*> by_name;
    graph.for_each_value([&](Value* value) { by_name[value->name] = value; });
    for (const std::string& name : options_.extra_outputs) {
      const auto found = by_name.find(name);
      if (found == by_name.end()) throw Error(Code::ARGUMENT, "there is no value \"" + name + "\" to make an output");
      if (!Graph::is_output(found->second)) graph.outputs.push_back(found->second);
    }
  }

  void optimise() {
    PassOptions pass_options;
    pass_options.level = options_.level;
    pass_options.disabled = options_.disabled_passes;
    if (options_.dump) {
      pass_options.dump = [&](const std::string& pass, const Graph& g) { dump("pass:" + pass, print_graph(g)); };
    }
    result_.report.passes = run_pipeline(*model_.graph, pass_options, conversions());
    result_.file.graph_text += "\nafter passes:\n" + print_graph(*model_.graph);
    dump("graph", print_graph(*model_.graph));
  }

  // What puts values into the types that the precision asks for.
  std::vector<Pass> conversions() {
    if (precision_ == Precision::TF32) {
      return {{"note_tf32", "tells which nodes may round their operands", [this](Graph& graph) {
                 note_tf32(graph, precision_notes_);
                 return false;
               }}};
    }
    const auto type = narrow_type(precision_);
    if (!type) return {};  // fp32
    return {{"autocast", "puts values into 16 bits where that is safe", [this, type](Graph& graph) {
               AutocastOptions autocast_options;
               autocast_options.type = *type;
               if (graph.parent() == nullptr) autocast_options.seen = see_values(graph, options_.calib, threads_);
               return autocast(graph, autocast_options, &precision_notes_);
             }}};
  }

  void lower_graph() {
    Program& program = result_.file.program;
    LowerOptions lower_options;
    lower_options.regions = (options_.level >= 2 || on_gpu()) && options_.disabled_passes.count(kRegions) == 0;
    program = lower(*model_.graph, lower_options);
    program.threads = threads_;
    program.metadata["model.producer"] = model_.producer;
    program.metadata["model.opset"] = std::to_string(model_.opset);
    for (const auto& [key, value] : model_.metadata) program.metadata["model.metadata." + key] = value;
    for (const auto& [name, use] : model_.user_ops) note_user_op(program, name, use.definition, use.nodes);
    note_device(program.metadata);
    program.metadata["build.precision"] = options_.precision;
    for (const auto& [reason, nodes] : precision_notes_) note_precision(program, reason, nodes);
    program.metadata["build.level"] = std::to_string(options_.level);
    for (ProgramInput& input : program.inputs) {
      auto it = options_.ranges.find(input.name);
      if (it == options_.ranges.end()) continue;
      input.has_range = true;
      input.range = it->second;
    }
  }

  void note_device(std::map<std::string, std::string>& metadata) const {
    metadata["build.device"] = kind_ == "null" ? options_.device : kind_;
    if (!on_gpu()) return;
    std::string targets;
    for (int a : architectures_) targets += (targets.empty() ? "sm_" : ", sm_") + std::to_string(a);
    metadata["build.targets"] = targets;
    if (options_.device_only) metadata["build.device_only"] = "yes";
    metadata["build.measured"] = gpu_ != nullptr ? "on " + gpu_->info().model
                                                 : "no: kernels are compiled, not run or compared (" + unseen_ + ")";
  }

  void tune_steps() {
    bool guessed = false;
    const Probe probed = probe(result_.file.program, Which::OPT, threads_, &guessed);
    if (!probed.failure.empty() || guessed) warn_about_guesses(probed);
    if (!options_.tune && !on_gpu()) return finish_ledger(result_.file.program, probed, nullptr, {});
    TuneOptions tune_options;
    if (on_gpu()) {
      tune_options.device = "cuda";
      tune_options.present = gpu_;
      tune_options.architectures = architectures_;
      if (!unseen_.empty()) {
        result_.report.warnings.push_back("kernels for " + options_.device +
                                          " are compiled, not run or compared: " + unseen_);
      }
    }
    tune_options.threads = threads_;
    tune_options.budget_s = options_.budget_s;
    tune_options.cache_dir = options_.tune_cache;
    tune_options.lock_text = options_.lock_text;
    tune_options.force_tactic = options_.force_tactic;
    tune_options.tolerance = options_.tolerance;
    tune_options.log = options_.log;
    if (options_.progress) {
      tune_options.progress = [&](size_t done, size_t total) { options_.progress("tune", done, total); };
    }
    const int before = omp_get_max_threads();
    omp_set_num_threads(threads_);
    const auto start = Clock::now();
    result_.report.tuning = on_gpu() ? tune_both_sides(result_.file.program, probed.tasks, tune_options, options_.tune)
                                     : tune(result_.file.program, probed.tasks, tune_options);
    if (options_.disabled_passes.count(kCombos) == 0) {
      if (options_.budget_s > 0) tune_options.budget_s = std::max(1e-9, options_.budget_s - seconds_since(start));
      result_.report.tuning = tune_combos(result_.file.program, probed, tune_options, std::move(result_.report.tuning));
    }
    omp_set_num_threads(before);
    result_.file.lock_text = result_.report.tuning.lock_text;
    if (on_gpu() && probed.failure.empty()) tell_host_steps(probed);
    finish_ledger(result_.file.program, probed, &result_.report.tuning, host_steps_);
  }

  void tell_host_steps(const Probe& probed) {
    Program& program = result_.file.program;
    host_steps_ = find_host_steps(program, probed.shapes, result_.report.tuning.refused);
    if (options_.device_only) refuse_host_steps(program, host_steps_, options_.device);
    const std::string summary = host_steps_.summary(program);
    if (summary.empty()) return;
    program.metadata["build.host_steps"] = summary;
    result_.report.warnings.push_back("on the CPU run " + summary +
                                      "; inspect --why names the values that are copied for them");
    for (int32_t step : host_steps_.steps) {
      if (!options_.log) break;
      const Step& own = program.steps[static_cast<size_t>(step)];
      options_.log(own.name + " " + own.op + ": runs on the CPU: " + host_steps_.reasons.at(step));
    }
  }

  void warn_about_guesses(const Probe& probed) {
    std::string text = probed.failure.empty() ? "tuned at guessed shapes" : "no guessed shape fits the model";
    for (size_t i = 0; i < probed.shapes.size(); ++i) {
      text += (i ? ", " : ": ") + result_.file.program.inputs[i].name + "=" + probed.shapes[i].dims.to_string();
    }
    if (!probed.failure.empty()) text += " (" + probed.failure + ")";
    result_.report.warnings.push_back(text + "; give your own with --range NAME=min:opt:max");
  }

  void plan() {
    bool guessed = false;
    const Probe planned = probe(result_.file.program, Which::MAX, threads_, &guessed);
    result_.report.arena_bytes = planned.arena_bytes;
    result_.report.arena_lower_bound = planned.arena_lower_bound;
    result_.file.program.metadata["plan.arena_bytes"] = std::to_string(planned.arena_bytes);
    result_.file.program.metadata["plan.lower_bound"] = std::to_string(planned.arena_lower_bound);
    if (const auto launches = count_launches(result_.file.program, planned.shapes, threads_)) {
      result_.file.program.metadata["plan.launches"] = std::to_string(*launches);
    }
  }

  void dump(const std::string& stage, const std::string& text) const {
    if (options_.dump) options_.dump(stage, text);
  }

  bool on_gpu() const { return kind_ != "cpu"; }

  const BuildOptions& options_;
  Precision precision_ = Precision::FP32;
  PrecisionNotes precision_notes_;
  std::string kind_ = "cpu";
  std::shared_ptr<device::Device> gpu_;  // nullptr: none here, or nothing to measure on it
  std::string unseen_;                   // why nothing is measured on a GPU
  std::vector<int> architectures_;
  HostSteps host_steps_;  // of a GPU
  int threads_ = 1;
  bool stopped_ = false;
  ImportedModel model_;
  BuildResult result_;
};

}  // namespace

BuildResult build(std::span<const uint8_t> model, const BuildOptions& options) { return Build(options).run(model); }

BuildResult build_file(const std::string& path, BuildOptions options) {
  const FileBytes file = read_plain_file(path);
  if (options.model_folder.empty()) {
    const auto folder = std::filesystem::path(path).parent_path().string();
    options.model_folder = folder.empty() ? "." : folder;
  }
  return build(file.bytes, options);
}

std::vector<std::string> switchable_passes() {
  std::vector<std::string> names;
  for (const Pass& pass : default_pipeline(3)) {
    if (std::find(names.begin(), names.end(), pass.name) == names.end()) names.push_back(pass.name);
  }
  names.emplace_back(kRegions);
  names.emplace_back(kCombos);
  return names;
}

void check_switchable(const std::string& name) {
  const std::vector<std::string> names = switchable_passes();
  if (std::find(names.begin(), names.end(), name) != names.end()) return;
  std::string list;
  for (const std::string& known : names) list += (list.empty() ? "" : ", ") + known;
  throw Error(Code::ARGUMENT, "there is no pass \"" + name + "\" to switch off", "the passes are " + list);
}

std::vector<int> parse_targets(const std::string& text) {
  std::vector<int> targets;
  size_t start = 0;
  while (start < text.size()) {
    const size_t end = std::min(text.find(',', start), text.size());
    std::string word = text.substr(start, end - start);
    if (word.rfind("sm_", 0) == 0) word = word.substr(3);
    if (word.size() < 2 || word.size() > 3 || word.find_first_not_of("0123456789") != std::string::npos) {
      throw Error(Code::ARGUMENT, "\"" + text + "\" is no list of targets", "write it like sm_80,sm_90");
    }
    targets.push_back(std::stoi(word));
    start = end + 1;
  }
  std::sort(targets.begin(), targets.end());
  targets.erase(std::unique(targets.begin(), targets.end()), targets.end());
  return targets;
}

Dims parse_shape(const std::string& text) {
  Dims dims;
  size_t start = 0;
  while (start <= text.size()) {
    const size_t end = std::min(text.find('x', start), text.size());
    const std::string word = text.substr(start, end - start);
    if (word.empty() || word.size() > 15 || word.find_first_not_of("0123456789") != std::string::npos) {
      throw Error(Code::ARGUMENT, "\"" + text + "\" is not a shape", "write it like 1x3x224x224");
    }
    dims.push_back(std::stoll(word));
    start = end + 1;
  }
  return dims;
}

void parse_range(const std::string& text, std::map<std::string, ShapeRange>& ranges) {
  const size_t equals = text.rfind('=');
  if (equals == std::string::npos || equals == 0) {
    throw Error(Code::ARGUMENT, "range \"" + text + "\" is not understood",
                "write NAME=min:opt:max, e.g. x=1x80:4x80:16x80");
  }
  std::vector<Dims> shapes;
  const std::string rest = text.substr(equals + 1);
  size_t start = 0;
  while (start <= rest.size()) {
    const size_t end = std::min(rest.find(':', start), rest.size());
    shapes.push_back(parse_shape(rest.substr(start, end - start)));
    start = end + 1;
  }
  if (shapes.size() != 1 && shapes.size() != 3) {
    throw Error(Code::ARGUMENT, "range \"" + text + "\" needs one shape or three (min:opt:max)");
  }
  ranges[text.substr(0, equals)] = {shapes.front(), shapes[shapes.size() / 2], shapes.back()};
}

}  // namespace deepjit
