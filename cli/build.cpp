// deepjit build: an ONNX model to an engine file.
#include <fmt/format.h>

#include <filesystem>

#include "cli/build_flags.h"
#include "cli/build_report.h"
#include "cli/files.h"
#include "cli/inputs.h"
#include "cli/text.h"
#include "cli/verb.h"
#include "engine/format.h"

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
  Json object = {{"model", model},
                 {"engine", path.empty() ? Json(nullptr) : Json(path)},
                 {"engine_bytes", bytes},
                 {"device", result.file.program.metadata.at("build.device")},
                 {"precision", flags.precision},
                 {"threads", result.file.program.threads},
                 {"level", flags.level},
                 {"nodes_before", r.passes.nodes_before},
                 {"nodes_after", r.passes.nodes_after}};
  object.update(report_json(result));
  return object;
}

void BuildVerb::print_summary(const BuildResult& result, const std::string& path, size_t bytes) const {
  const BuildReport& r = result.report;
  fmt::print("nodes    {} -> {}\n", r.passes.nodes_before, r.passes.nodes_after);
  print_report(result);
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
