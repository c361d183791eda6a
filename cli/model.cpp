#include "cli/model.h"

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "cli/inputs.h"
#include "engine/format.h"
#include "import/importer.h"
#include "program/ranges.h"

namespace deepjit::cli {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

Model make_model(EngineFile file, Backing backing, Clock::time_point start, const std::string& device) {
  Model model;
  model.graph_text = std::move(file.graph_text);
  model.lock_text = std::move(file.lock_text);
  model.engine = std::make_shared<const Engine>(std::move(file.program), std::move(backing), device);
  model.load_s = seconds_since(start);
  model.constant_bytes = constant_bytes(model.program());
  return model;
}

bool fits(const Shape& shape, const Dims& dims) {
  if (!shape.ranked()) return true;
  if (shape.rank() != dims.rank()) return false;
  for (int i = 0; i < dims.rank(); ++i) {
    if (shape[i].is_const() && shape[i].value() != dims[i]) return false;
  }
  return true;
}

}  // namespace

void fix_shapes(const std::string& path, const std::map<std::string, Dims>& fixed,
                std::map<std::string, ShapeRange>& ranges) {
  std::error_code ignored;
  if (fixed.empty() || !std::filesystem::is_regular_file(path, ignored)) return;
  const ImportedModel model = import_onnx_file(path);
  std::vector<std::string> names;
  for (const Value* input : model.graph->inputs) names.push_back(input->name);
  check_input_names(names, {}, fixed);
  for (const Value* input : model.graph->inputs) {
    const auto it = fixed.find(input->name);
    if (it == fixed.end() || it->second.empty() || ranges.count(it->first)) continue;
    // One that does not fit is left for the run to complain about.
    if (fits(input->type.shape, it->second)) ranges[it->first] = {it->second, it->second, it->second};
  }
}

std::string Model::metadata(const std::string& key, const std::string& fallback) const {
  const auto it = program().metadata.find(key);
  return it == program().metadata.end() ? fallback : it->second;
}

bool is_engine_file(const std::string& path) {
  if (std::filesystem::path(path).extension() == ".dje") return true;
  char magic[sizeof kEngineMagic] = {};
  std::ifstream in(path, std::ios::binary);
  in.read(magic, sizeof magic);
  return in.gcount() == sizeof magic && std::memcmp(magic, kEngineMagic, sizeof magic) == 0;
}

Model build_model(const std::string& path, const BuildOptions& options) {
  BuildResult result = build_file(path, options);
  Model model = make_model(std::move(result.file), nullptr, Clock::now(), options.device);
  model.built = true;
  model.build_s = result.report.seconds;
  model.report = std::move(result.report);
  return model;
}

Model open_model(const std::string& path, const BuildFlags& flags, const std::map<std::string, Dims>& fixed) {
  if (is_engine_file(path)) {
    const auto start = Clock::now();
    LoadedFile loaded = load_engine(path);
    return make_model(std::move(loaded.file), std::move(loaded.backing), start, flags.device);
  }
  Progress progress;
  BuildOptions options = flags.options(progress);
  fix_shapes(path, fixed, options.ranges);
  Model model = build_model(path, options);
  for (const std::string& warning : model.report.warnings) progress.line("warning: " + warning);
  return model;
}

}  // namespace deepjit::cli
