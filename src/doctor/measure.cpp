#include "doctor/measure.h"

#include <algorithm>
#include <chrono>

#include "compiler/build.h"
#include "doctor/feed.h"

namespace deepjit::doctor {

namespace {

// The time of each step, run after run.
struct StepTimes : StepTimer {
  std::map<const Step*, std::vector<double>> samples;

  void on_step(const Step& step, double us) override { samples[&step].push_back(us); }

  // The median, by the names of the values that the step writes.
  std::map<std::string, double> by_value(const Program& program) {
    std::map<std::string, double> times;
    for (auto& [step, list] : samples) {
      std::nth_element(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(list.size() / 2), list.end());
      for (int32_t b : step->outputs) {
        if (b >= 0) times[program.buffers[static_cast<size_t>(b)].name] = list[list.size() / 2];
      }
    }
    return times;
  }
};

BuildOptions build_options(const Options& options) {
  constexpr double kTuning = 60;
  BuildOptions build;
  build.level = 0;
  build.budget_s = kTuning;
  build.model_folder = options.folder;
  for (const auto& entry : options.traffic) {
    for (const auto& [name, dims] : entry) build.ranges.try_emplace(name, ShapeRange{dims, dims, dims});
  }
  return build;
}

}  // namespace

std::map<std::string, double> measure_nodes(std::span<const uint8_t> model, const Options& options) {
  BuildResult result = build(model, build_options(options));
  const auto engine = std::make_shared<const Engine>(std::move(result.file.program), nullptr);
  const std::vector<Tensor> inputs = make_inputs(engine->program(), working_trials(engine, options).front(), 1);
  std::vector<TensorView> views;
  for (const Tensor& input : inputs) views.push_back(input.view());
  Context context(engine);
  std::vector<TensorView> outputs;
  context.run(views, outputs);  // binds
  StepTimes times;
  context.set_observer(&times);
  const auto start = std::chrono::steady_clock::now();
  const auto budget = std::chrono::seconds(2);
  for (int i = 0; i < 50 && (i < 3 || std::chrono::steady_clock::now() - start < budget); ++i) {
    context.run(views, outputs);
  }
  return times.by_value(engine->program());
}

}  // namespace deepjit::doctor
