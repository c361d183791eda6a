#include "compiler/calibrate.h"

#include <algorithm>
#include <cmath>

#include "lower/lower.h"
#include "runtime/engine.h"

namespace deepjit {

namespace {

// The graph's program, with every float32 value of the outermost graph as an output.
Program watched_program(Graph& graph) {
  const std::vector<Value*> outputs = graph.outputs;
  graph.for_each_value([&](Value* v) {
    const bool computed = v->producer != nullptr && v->type.dtype == DType::FLOAT32;
    if (computed && !Graph::is_output(v)) graph.outputs.push_back(v);
  });
  LowerOptions options;
  options.regions = false;
  Program program;
  try {
    program = lower(graph, options);
  } catch (...) {
    graph.outputs = outputs;
    throw;
  }
  graph.outputs = outputs;
  return program;
}

void note_largest(const std::string& name, const TensorView& view, std::map<std::string, double>& seen) {
  if (view.dtype != DType::FLOAT32) return;
  float largest = 0;
  const float* x = view.as<float>();
  for (int64_t i = 0, n = view.count(); i < n; ++i) {
    if (std::isfinite(x[i])) largest = std::max(largest, std::fabs(x[i]));
  }
  double& most = seen[name];
  most = std::max(most, static_cast<double>(largest));
}

std::vector<TensorView> views_for(const Program& program, const Sample& sample) {
  std::vector<TensorView> views;
  size_t found = 0;
  for (const ProgramInput& input : program.inputs) {
    const auto it = sample.find(input.name);
    views.push_back(it == sample.end() ? TensorView() : it->second.view());
    found += it == sample.end() ? 0 : 1;
  }
  if (found == sample.size()) return views;
  std::string names;
  for (const ProgramInput& input : program.inputs) names += (names.empty() ? "" : ", ") + input.name;
  for (const auto& [name, tensor] : sample) {
    const bool known = std::any_of(program.inputs.begin(), program.inputs.end(),
                                   [&, &n = name](const ProgramInput& input) { return input.name == n; });
    if (!known) throw Error(Code::INPUT_NAME, "there is no input \"" + name + "\"", "the inputs are " + names);
  }
  return views;
}

}  // namespace

std::map<std::string, double> see_values(Graph& graph, const std::vector<Sample>& samples, int threads) {
  std::map<std::string, double> seen;
  if (samples.empty()) return seen;
  const auto engine = std::make_shared<const Engine>(watched_program(graph), Backing());
  const Program& program = engine->program();
  Context context(engine, threads);
  for (size_t i = 0; i < samples.size(); ++i) {
    try {
      const std::vector<TensorView> inputs = views_for(program, samples[i]);
      std::vector<TensorView> outputs;
      context.run(inputs, outputs);
      for (size_t o = 0; o < outputs.size(); ++o) note_largest(program.outputs[o].name, outputs[o], seen);
      for (size_t k = 0; k < inputs.size(); ++k) {
        if (inputs[k].data != nullptr) note_largest(program.inputs[k].name, inputs[k], seen);
      }
    } catch (const Error& e) {
      throw e.with_prefix("calibration sample " + std::to_string(i) + ": ");
    }
  }
  return seen;
}

}  // namespace deepjit
