#include "cli/run_flags.h"

#include <fmt/format.h>

#include <thread>

namespace deepjit::cli {

void RunFlags::add_to(CLI::App& app, int most_iterations) {
  app.add_option("model", model, "the engine or the ONNX model")->required()->option_text("M.dje|M.onnx");
  app.add_option("-i,--input", inputs, std::string(kInputDoc) + "; random by default")
      ->option_text("NAME=DATA")
      ->allow_extra_args(false);
  app.add_option("--shapes", shapes, kShapesDoc)->option_text("NAME=SHAPE")->allow_extra_args(false);
  app.add_option("--iterations", iterations, "timed runs of each context; goes before --seconds")
      ->option_text("N")
      ->check(CLI::Range(1, most_iterations));
  app.add_option("--seconds", seconds, fmt::format("how long to measure [default: {}]", seconds))
      ->option_text("S")
      ->check(CLI::Range(0.0, 86400.0));
  app.add_option("--contexts", contexts, "contexts that run at once, each in a thread [default: 1]")
      ->option_text("N")
      ->check(CLI::Range(1, 256));
  app.add_flag("--json", json, "print one JSON object on stdout");
}

Fed open_and_feed(const RunFlags& flags) {
  const std::vector<InputSpec> specs = parse_inputs(flags.inputs);
  const std::map<std::string, Dims> fixed = fixed_shapes(specs, parse_shapes(flags.shapes));
  Fed fed{open_model(flags.model, flags.build, fixed), {}};
  fed.inputs = make_inputs(fed.model.program(), specs, fixed, true);
  return fed;
}

int threads_per_context(const RunFlags& flags, const Model& model) {
  if (flags.build.threads > 0 || flags.contexts == 1) return flags.build.threads;
  const int cores =
      model.program().threads > 0 ? model.program().threads : static_cast<int>(std::thread::hardware_concurrency());
  return std::max(1, cores / flags.contexts);
}

}  // namespace deepjit::cli
