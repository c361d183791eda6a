// deepjit tune: chooses the kernels of a saved engine anew, by measuring on this machine.
#include <fmt/format.h>

#include <filesystem>

#include "cli/build_flags.h"
#include "cli/build_report.h"
#include "cli/files.h"
#include "cli/text.h"
#include "cli/verb.h"
#include "compiler/retune.h"
#include "engine/format.h"

namespace deepjit::cli {

namespace {

struct TuneVerb {
  std::string engine;
  std::string output;
  bool json = false;
  BuildFlags flags;

  int run() const;
};

// In place: the file that a link leads to.
std::string real_path(const std::string& path) {
  std::error_code failure;
  const std::filesystem::path real = std::filesystem::canonical(path, failure);
  return failure ? path : real.string();
}

int TuneVerb::run() const {
  const std::string path = output.empty() ? real_path(engine) : output;
  BuildResult result;
  const LoadedFile loaded = load_engine(engine);  // holds what the constants refer to until it is saved
  {
    Progress progress;
    BuildOptions options = flags.options(progress);
    options.device = flags.device;
    result = tune_engine(loaded.file, std::move(options));
    for (const std::string& warning : result.report.warnings) progress.line("warning: " + warning);
  }
  if (!loaded.backing.intact()) throw Error(Code::ENGINE_CHANGED, "\"" + engine + "\" was changed while it was tuned");
  save_engine(result.file, path);
  if (!flags.lock.empty()) write_file(flags.lock, result.file.lock_text);
  const auto bytes = std::filesystem::file_size(path);
  const auto& metadata = result.file.program.metadata;
  if (json) {
    Json object = {{"engine", path},
                   {"engine_bytes", bytes},
                   {"device", metadata.at("build.device")},
                   {"measured_on", metadata.at("build.measured")},
                   {"threads", result.file.program.threads}};
    object.update(report_json(result));
    print_json(object);
  } else {
    fmt::print("measured {}\n", metadata.at("build.measured"));
    print_report(result);
    fmt::print("engine   {}, {}\n", path, bytes_text(static_cast<double>(bytes)));
  }
  return 0;
}

}  // namespace

Verb add_tune(CLI::App& app) {
  auto verb = std::make_shared<TuneVerb>();
  CLI::App* command = app.add_subcommand("tune", "measure a saved engine's kernels on this machine and choose anew");
  command->add_option("engine", verb->engine, "the engine file")->required()->option_text("M.dje");
  command->add_option("-o,--output", verb->output, "the tuned engine [default: in place of the old one]")
      ->option_text("M.dje");
  command->add_flag("--json", verb->json, "print one JSON object on stdout");
  verb->flags.add_tuning_to(*command);
  command->footer("Example: deepjit tune m.dje --tune-cache ~/.cache/deepjit");
  return {command, [verb] { return verb->run(); }};
}

}  // namespace deepjit::cli
