// deepjit build: an ONNX model to an engine file.
#include <fmt/format.h>

#include <filesystem>

#include "cli/build_flags.h"
#include "cli/files.h"
#include "cli/inputs.h"
#include "cli/text.h"
#include "cli/verb.h"
#include "engine/format.h"
#include "program/ranges.h"

namespace deepjit::cli {

namespace {

struct BuildVerb {
  std::string model;
  std::string output;
  bool json = false;
  BuildFlags flags;

  int run() const;

 private:
  Json summary(const BuildResult& result, const std::string& path, size_t bytes) const;
  void print_summary(const BuildResult& result, const std::string& path, size_t bytes) const;
};

void dump_result(const BuildResult& result, const std::string& stopped_after) {
  const std::set<std::string> kinds = dump_kinds();
  const Program& program = result.file.program;
  if (stopped_after == "import" || stopped_after == "passes") return;
  if (kinds.count("program")) write_dump("program", program_text(program));
  if (stopped_after == "lower") return;
  if (kinds.count("tactics")) write_dump("tactics", steps_of_ranges(program) + "\nlock:\n" + result.file.lock_text);
  if (kinds.count("plan")) {
    write_dump("plan", plan_text(plan_of(program, input_descs(program, {}), program.threads)));
  }
}

Json BuildVerb::summary(const BuildResult& result, const std::string& path, size_t bytes) const {
  const BuildReport& r = result.report;
  Json stages = Json::object();
  for (const StageTime& stage : r.stages) stages[stage.stage] = stage.seconds;
  return {{"model", model},
          {"engine", path.empty() ? Json(nullptr) : Json(path)},
          {"engine_bytes", bytes},
          {"device", result.file.program.metadata.at("build.device")},
          {"precision", flags.precision},
          {"threads", result.file.program.threads},
          {"level", flags.level},
          {"nodes_before", r.passes.nodes_before},
          {"nodes_after", r.passes.nodes_after},
          {"ranges", 1 + result.file.program.others.size()},
          {"steps", result.file.program.steps.size()},
          {"tactics", steps_by_provider(result.file.program)},
          {"measured", r.tuning.measured},
          {"reused", r.tuning.reused},
          {"out_of_budget", r.tuning.out_of_budget},
          {"kernels_compiled", r.tuning.kernels_compiled},
          {"kernels_loaded", r.tuning.kernels_loaded},
          {"compile_s", r.tuning.compile_s},
          {"tuning", {{"flagged", r.tuning.flagged}, {"suspicious", r.tuning.suspicious}}},
          {"arena_bytes", r.arena_bytes},
          {"arena_lower_bound", r.arena_lower_bound},
          {"stages_s", stages},
          {"build_s", r.seconds},
          {"warnings", r.warnings}};
}

void BuildVerb::print_summary(const BuildResult& result, const std::string& path, size_t bytes) const {
  const BuildReport& r = result.report;
  const Program& program = result.file.program;
  fmt::print("nodes    {} -> {}\n", r.passes.nodes_before, r.passes.nodes_after);
  for (const Program* own : programs_of(program)) {
    if (!program.others.empty()) fmt::print("range    {}\n", which_range(program, *own));
  }
  fmt::print("steps    {} ({})\n", program.steps.size(), counts_text(steps_by_provider(program)));
  fmt::print("tuning   {} measured, {} reused, {} out of budget\n", r.tuning.measured, r.tuning.reused,
             r.tuning.out_of_budget);
  fmt::print("kernels  {} compiled in {:.2f} s, {} from the cache\n", r.tuning.kernels_compiled, r.tuning.compile_s,
             r.tuning.kernels_loaded);
  if (!r.tuning.flagged.empty()) {
    fmt::print(
        "flagged  {} kinds of steps below 30% of what the GPU's memory and arithmetic allow (--json lists them)\n",
        r.tuning.flagged.size());
  }
  for (const std::string& line : r.tuning.suspicious) fmt::print("suspicious  {}\n", line);
  fmt::print("arena    {}, lower bound {}\n", bytes_text(static_cast<double>(r.arena_bytes)),
             bytes_text(static_cast<double>(r.arena_lower_bound)));
  std::string stages;
  for (const StageTime& stage : r.stages) stages += fmt::format(", {} {:.2f} s", stage.stage, stage.seconds);
  fmt::print("time     {:.2f} s{}\n", r.seconds, stages);
  if (path.empty()) {
    fmt::print("engine   none: stopped after {}\n", flags.stop_after);
  } else {
    fmt::print("engine   {}, {}\n", path, bytes_text(static_cast<double>(bytes)));
  }
}

int BuildVerb::run() const {
  BuildResult result;
  {
    Progress progress;
    result = build_file(model, flags.options(progress));
    for (const std::string& warning : result.report.warnings) progress.line("warning: " + warning);
  }
  dump_result(result, flags.stop_after);
  std::string path;
  size_t bytes = 0;
  if (flags.stop_after.empty()) {
    path = output.empty() ? std::filesystem::path(model).replace_extension(".dje").string() : output;
    save_engine(result.file, path);
    bytes = std::filesystem::file_size(path);
    if (!flags.lock.empty()) write_file(flags.lock, result.file.lock_text);
  }
  if (json) {
    print_json(summary(result, path, bytes));
  } else {
    print_summary(result, path, bytes);
  }
  return 0;
}

}  // namespace

Verb add_build(CLI::App& app) {
  auto verb = std::make_shared<BuildVerb>();
  CLI::App* command = app.add_subcommand("build", "compile an ONNX model into an engine file");
  command->add_option("model", verb->model, "the ONNX model")->required()->option_text("M.onnx");
  command->add_option("-o,--output", verb->output, "the engine file [default: beside the model]")->option_text("M.dje");
  command->add_flag("--json", verb->json, "print one JSON object on stdout");
  verb->flags.add_to(*command);
  verb->flags.add_stop_after(*command);
  command->footer("Example: deepjit build m.onnx -o m.dje --range x=1x3x224x224:8x3x224x224:32x3x224x224");
  return {command, [verb] { return verb->run(); }};
}

}  // namespace deepjit::cli
