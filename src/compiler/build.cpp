// model -> import -> GRAPH -> passes -> GRAPH -> lower -> PROGRAM -> tune -> plan -> ENGINE
#include "compiler/build.h"

#include <omp.h>

#include <chrono>
#include <filesystem>

#include "base/clock.h"
#include "base/file.h"
#include "compiler/option_text.h"
#include "compiler/shapes.h"
#include "compiler/tuning.h"
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

using Clock = std::chrono::steady_clock;

// One build at work: holds what the stages hand on and what the report says.
class Build {
 public:
  explicit Build(const BuildOptions& options) : options_(options), device_(find_device(options)) {
    precision_ = parse_precision(options.precision);
    if (precision_ != Precision::FP32 && !device_.is_gpu()) {
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

  BuildResult run(std::span<const uint8_t> model) {
    const auto start = Clock::now();
    stage("import", [&] { import(model); });
    stage("passes", [&] { optimise(); });
    stage("lower", [&] { lower_graph(); });
    stage("tune", [&] { tune_program(result_, device_, options_); });
    stage("plan", [&] { plan_program(result_); });
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
    ranges_ = range_sets(options_.ranges, options_.more_ranges);
    apply_ranges(*model_.graph, ranges_);
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
    lower_options.regions = (options_.level >= 2 || device_.is_gpu()) && options_.disabled_passes.count(kRegions) == 0;
    program = lower(*model_.graph, lower_options);
    result_.file.edges = program.ledger;
    program.threads = threads_;
    program.metadata["model.producer"] = model_.producer;
    program.metadata["model.opset"] = std::to_string(model_.opset);
    for (const auto& [key, value] : model_.metadata) program.metadata["model.metadata." + key] = value;
    for (const auto& [name, use] : model_.user_ops) note_user_op(program, name, use.definition, use.nodes);
    note_device(program.metadata, device_, options_);
    program.metadata["build.precision"] = options_.precision;
    for (const auto& [reason, nodes] : precision_notes_) note_precision(program, reason, nodes);
    program.metadata["build.level"] = std::to_string(options_.level);
    set_ranges(program, ranges_);
  }

  void dump(const std::string& stage, const std::string& text) const {
    if (options_.dump) options_.dump(stage, text);
  }

  const BuildOptions& options_;
  const BuildDevice device_;
  Precision precision_ = Precision::FP32;
  PrecisionNotes precision_notes_;
  int threads_ = 1;
  bool stopped_ = false;
  ImportedModel model_;
  std::vector<RangeSet> ranges_;
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

}  // namespace deepjit
