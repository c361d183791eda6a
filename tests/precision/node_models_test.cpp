// Every node test of the onnx package in 16 bits: types and names of outputs stay, and results are near those of
// float32, whatever the operator, its types and its optional operands.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "../passes/pass_test_util.h"
#include "base/file.h"
#include "import/importer.h"
#include "passes/pipeline.h"
#include "precision/autocast.h"

namespace deepjit {
namespace {

namespace fs = std::filesystem;

// An update subtracts numbers that nearly cancel; a scale is computed from inputs that were rounded.
const std::set<std::string> kSensitive = {"test_adam_multiple", "test_dynamicquantizelinear_expanded",
                                          "test_dynamicquantizelinear_max_adjusted_expanded"};

std::unique_ptr<Graph> import_file(const fs::path& path) {
  const FileBytes file = read_plain_file(path.string());
  return import_onnx(file.bytes, {}).graph;
}

// The largest error relative to the output's largest value; infinity where integers, NaN or infinities differ.
double error_of(const Tensor& expected, const Tensor& actual) {
  if (!is_float(expected.dtype())) return expected.same_as(actual) ? 0 : INFINITY;
  const std::vector<double> x = expected.to_f64();
  const std::vector<double> y = actual.to_f64();
  double error = 0;
  double largest = 1e-3;
  for (size_t i = 0; i < x.size(); ++i) {
    if (x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i]))) continue;
    if (!std::isfinite(x[i]) || !std::isfinite(y[i])) return INFINITY;
    error = std::max(error, std::abs(x[i] - y[i]));
  }
  for (double v : x) largest = std::isfinite(v) ? std::max(largest, std::abs(v)) : largest;
  return error / largest;
}

// True when the model runs on random inputs and autocast changed it.
bool check_model(const fs::path& path, int level) {
  std::unique_ptr<Graph> original, graph;
  std::vector<Tensor> inputs, expected;
  try {
    original = import_file(path);
    graph = import_file(path);
    inputs = random_inputs(*original, 3);
    expected = eval_graph(*original, inputs);
  } catch (const std::exception&) {  // an operator that is not there, or inputs that mean something
    return false;
  }
  PassOptions options;
  options.level = level;
  options.verify = true;
  bool changed = false;
  run_pipeline(*graph, options, {{"autocast", "", [&](Graph& g) {
                                    const bool now = autocast(g, {});
                                    changed = changed || now;
                                    return now;
                                  }}});
  expect_same_types(*original, *graph);
  if (!changed) return false;
  const std::vector<Tensor> actual = eval_graph(*graph, inputs);
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(expected[i].dims().to_string(), actual[i].dims().to_string());
    EXPECT_LE(error_of(expected[i], actual[i]), 1e-2) << "output " << i << "\n" << print_graph(*graph);
  }
  return true;
}

TEST(NodeModels, ComputeTheSameInSixteenBits) {
  int checked = 0;
  for (const fs::directory_entry& folder : fs::directory_iterator(DEEPJIT_NODE_TESTS)) {
    const std::string name = folder.path().filename().string();
    if (!fs::exists(folder.path() / "model.onnx") || kSensitive.count(name) != 0) continue;
    SCOPED_TRACE(name);
    for (int level : {0, 3}) {
      try {
        checked += check_model(folder.path() / "model.onnx", level) ? 1 : 0;
      } catch (const std::exception& e) {
        ADD_FAILURE() << e.what();
      }
    }
  }
  EXPECT_GT(checked, 800);
}

}  // namespace
}  // namespace deepjit
