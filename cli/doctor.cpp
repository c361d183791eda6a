// deepjit doctor: what is wrong with a model or its settings, and with --fix a mended model.
#include "doctor/doctor.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>

#include "cli/build_flags.h"
#include "cli/files.h"
#include "cli/model.h"
#include "cli/verb.h"
#include "doctor/report.h"

namespace deepjit::cli {

namespace {

using doctor::Severity;

// 2 is taken: an error of the program itself.
constexpr int kWarnings = 1;
constexpr int kErrors = 3;

struct DoctorVerb {
  std::string model;
  std::vector<std::string> settings_files;
  std::vector<std::string> commands;
  std::vector<std::string> traffic;
  std::vector<std::string> ignored;
  std::vector<std::string> ops;
  std::string fixed;
  std::string sarif;
  std::string fail_on = "warning";
  bool measure = false;
  bool json = false;
  bool all = false;

  int run() const;

 private:
  doctor::Options options() const;
  void print(const doctor::Report& report, const doctor::FixResult* fix, const std::string& path) const;
  int exit_code(const std::vector<doctor::Finding>& findings) const;
};

doctor::Options DoctorVerb::options() const {
  doctor::Options options;
  for (const std::string& path : settings_files) doctor::parse_settings(read_file(path), options.settings);
  for (const std::string& command : commands) doctor::parse_settings("--trtexec " + command, options.settings);
  options.traffic = doctor::parse_traffic(traffic);
  options.ignored = {ignored.begin(), ignored.end()};
  options.measure = measure;
  return options;
}

// A model with weights in files beside it names them relative to its own folder.
void check_same_folder(const std::string& model, const std::string& output) {
  const auto folder = [](const std::string& path) {
    std::error_code ignored;
    const std::filesystem::path parent = std::filesystem::path(path).parent_path();
    return std::filesystem::weakly_canonical(parent.empty() ? "." : parent, ignored);
  };
  if (folder(model) == folder(output)) return;
  throw Error(Code::ARGUMENT, "the model has weights in files beside it, so the mended one must be in the same folder",
              "write it to " + (std::filesystem::path(model).parent_path() / "mended.onnx").string());
}

void print_fix(const doctor::FixResult& fix, const std::string& path) {
  if (fix.model.empty()) {
    fmt::print("not written: {}\n", fix.reason);
    return;
  }
  fmt::print("mended {} finding{}, {} left\n", fix.mended.size(), fix.mended.size() == 1 ? "" : "s", fix.left.size());
  for (const std::string& step : fix.steps) fmt::print("  {}\n", step);
  fmt::print("wrote {}\n", path);
}

void DoctorVerb::print(const doctor::Report& report, const doctor::FixResult* fix, const std::string& path) const {
  if (!json) {
    fmt::print("{}", doctor::report_text(report, all ? report.findings.size() : 5));
    if (fix != nullptr) print_fix(*fix, fixed);
    return;
  }
  Json object = {{"model", path},
                 {"errors", report.count(Severity::ERROR)},
                 {"warnings", report.count(Severity::WARNING)},
                 {"notes", report.count(Severity::NOTE)},
                 {"findings", Json::parse(doctor::findings_json(report.findings))}};
  if (!report.measured.empty()) object["not_measured"] = report.measured;
  if (fix != nullptr) {
    object["fix"] = {{"written", fix->model.empty() ? Json(nullptr) : Json(fixed)},
                     {"reason", fix->reason.empty() ? Json(nullptr) : Json(fix->reason)},
                     {"proof", fix->steps},
                     {"mended", Json::parse(doctor::findings_json(fix->mended))},
                     {"left", Json::parse(doctor::findings_json(fix->left))}};
  }
  print_json(object);
}

int DoctorVerb::exit_code(const std::vector<doctor::Finding>& findings) const {
  Severity worst = Severity::NOTE;
  for (const doctor::Finding& f : findings) worst = std::max(worst, f.severity);
  const bool fails =
      fail_on != "never" && !findings.empty() &&
      (fail_on == "note" || worst == Severity::ERROR || (fail_on == "warning" && worst == Severity::WARNING));
  if (!fails) return 0;
  return worst == Severity::ERROR ? kErrors : kWarnings;
}

int DoctorVerb::run() const {
  for (const std::string& file : ops) register_ops_file(file);
  doctor::Options options = this->options();
  const auto& trt = options.settings.tensorrt;
  const std::string path = !model.empty() ? model : trt ? trt->model : "";
  if (path.empty()) throw Error(Code::ARGUMENT, "doctor needs a model", "run deepjit doctor M.onnx");
  if (is_engine_file(path)) {
    throw Error(Code::ARGUMENT, "doctor needs the ONNX model, \"" + path + "\" is an engine",
                "run deepjit doctor M.onnx");
  }
  const std::string bytes = read_file(path);
  const std::string folder = std::filesystem::path(path).parent_path().string();
  options.folder = folder.empty() ? "." : folder;
  const std::span<const uint8_t> span(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  const doctor::Report report = doctor::diagnose(span, options);
  if (!sarif.empty()) write_file(sarif, doctor::report_sarif(report, path, DEEPJIT_VERSION));
  if (fixed.empty()) {
    print(report, nullptr, path);
    return exit_code(report.findings);
  }
  const doctor::FixResult fix = doctor::fix(span, options);
  if (!fix.model.empty()) {
    if (fix.external_data) check_same_folder(path, fixed);
    write_file(fixed, fix.model);
  }
  print(report, &fix, path);
  return exit_code(fix.left);
}

}  // namespace

Verb add_doctor(CLI::App& app) {
  auto verb = std::make_shared<DoctorVerb>();
  CLI::App* command = app.add_subcommand("doctor", "find, explain and mend mistakes in a model and its settings");
  command->add_option("model", verb->model, "the ONNX model; may be left out when --trtexec names it")
      ->option_text("M.onnx");
  command->add_option("--fix", verb->fixed, "mend what can be, prove it on random inputs, and write the model")
      ->option_text("OUT.onnx");
  command->add_option("--settings", verb->settings_files, "settings: JSON or a trtexec command line; repeatable")
      ->option_text("FILE")
      ->allow_extra_args(false);
  command->add_option("--trtexec", verb->commands, "a trtexec command line, in quotes")
      ->option_text("COMMAND")
      ->allow_extra_args(false);
  command->add_option("--traffic", verb->traffic, "shapes that will be fed, such as x=1x3x224x224,x=8x3x640x640")
      ->option_text("NAME=SHAPE,...")
      ->allow_extra_args(false);
  command->add_option("--ignore", verb->ignored, "leaves a rule out, such as DJ103; repeatable")
      ->option_text("RULE")
      ->allow_extra_args(false);
  command->add_option("--ops", verb->ops, "defines operators of the model as expressions, in JSON; repeatable")
      ->option_text("FILE")
      ->allow_extra_args(false);
  command->add_flag("--measure", verb->measure, "build the model for the CPU and time the nodes of each finding");
  command->add_option("--fail-on", verb->fail_on, "note, warning, error or never [default: warning]")
      ->check(CLI::IsMember({"note", "warning", "error", "never"}))
      ->option_text("SEVERITY");
  command->add_option("--sarif", verb->sarif, "write SARIF 2.1.0 as well")->option_text("FILE");
  command->add_flag("--json", verb->json, "print one JSON object on stdout");
  command->add_flag("--all", verb->all, "print every finding, not the first five of each rule");
  command->footer(
      "The exit code is 0 when nothing is as bad as --fail-on, else 1 for warnings (or notes) and 3 for errors;\n"
      "2 is an error of the program itself. With --fix it is about what is left.\n"
      "Example: deepjit doctor m.onnx --fix mended.onnx --sarif m.sarif");
  return {command, [verb] { return verb->run(); }};
}

}  // namespace deepjit::cli
