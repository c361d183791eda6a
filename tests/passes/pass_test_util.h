// Before/after tests of passes: parse, run, compare structurally, and compare what both graphs compute.
//
//   expect_pass("identities", remove_identities, BEFORE, AFTER);      // the graph must become AFTER
//   expect_unchanged("identities", remove_identities, BEFORE);
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <memory>
#include <string>

#include "base/visit.h"
#include "eval_graph.h"
#include "graph/equal.h"
#include "graph/parse.h"
#include "graph/print.h"
#include "graph/verify.h"
#include "passes/cleanup/dead_code.h"
#include "passes/pass.h"

namespace deepjit {

using PassFunction = std::function<bool(Graph&)>;
using Sizes = std::map<std::string, int64_t>;

// Values for symbols that a test does not fix; different, so that mixed-up axes show.
inline int64_t symbol_size(const std::string& symbol, const Sizes& sizes) {
  if (auto it = sizes.find(symbol); it != sizes.end()) return it->second;
  if (symbol == "N") return 2;
  if (symbol == "C") return 3;
  if (symbol == "H") return 5;
  if (symbol == "W") return 4;
  return 6;
}

inline Tensor random_tensor(const TensorType& type, uint64_t& state, const Sizes& sizes) {
  Dims dims;
  for (const Dim& d : type.shape.dims()) {
    dims.push_back(*d.evaluate([&](const std::string& s) { return std::optional(symbol_size(s, sizes)); }));
  }
  Tensor t(type.dtype, dims);
  auto next = [&] {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<double>(state >> 33) / static_cast<double>(1u << 31);
  };
  if (type.dtype == DType::BOOL) {
    for (int64_t i = 0; i < t.count(); ++i) t.as<uint8_t>()[i] = next() < 0.5;
    return t;
  }
  visit_numeric(type.dtype, "random input", [&]<typename T>() {
    for (int64_t i = 0; i < t.count(); ++i) {
      const double v = is_float(type.dtype) ? next() * 8 - 4 : std::floor(next() * 4);
      t.as<T>()[i] = static_cast<T>(static_cast<compute_t<T>>(v));
    }
  });
  return t;
}

inline std::vector<Tensor> random_inputs(const Graph& graph, uint64_t seed, const Sizes& sizes = {}) {
  std::vector<Tensor> inputs;
  for (const Value* v : graph.inputs) inputs.push_back(random_tensor(v->type, seed, sizes));
  return inputs;
}

inline void expect_close(const Tensor& a, const Tensor& b, double tolerance, const std::string& what) {
  ASSERT_EQ(dtype_name(a.dtype()), dtype_name(b.dtype())) << what;
  ASSERT_EQ(a.dims().to_string(), b.dims().to_string()) << what;
  if (!is_float(a.dtype())) {
    EXPECT_TRUE(a.same_as(b)) << what << ": elements differ";
    return;
  }
  const std::vector<double> x = a.to_f64();
  const std::vector<double> y = b.to_f64();
  for (size_t i = 0; i < x.size(); ++i) {
    if ((std::isnan(x[i]) && std::isnan(y[i])) || x[i] == y[i]) continue;
    ASSERT_LE(std::abs(x[i] - y[i]), tolerance * (1 + std::abs(x[i]))) << what << ": element " << i;
  }
}

// Both graphs compute the same from the same inputs.
inline void expect_same_results(const Graph& before, const Graph& after, double tolerance = 2e-5,
                                const Sizes& sizes = {}) {
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    const std::vector<Tensor> inputs = random_inputs(before, seed, sizes);
    const std::vector<Tensor> expected = eval_graph(before, inputs);
    const std::vector<Tensor> actual = eval_graph(after, inputs);
    ASSERT_EQ(expected.size(), actual.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      expect_close(expected[i], actual[i], tolerance, "output " + std::to_string(i));
    }
  }
}

inline void expect_same_types(const Graph& before, const Graph& after) {
  for (size_t i = 0; i < before.outputs.size(); ++i) {
    EXPECT_EQ(before.outputs[i]->name, after.outputs[i]->name) << "an output lost its name";
    EXPECT_EQ(before.outputs[i]->type.dtype, after.outputs[i]->type.dtype);
  }
}

// Runs the pass (and dead code removal after it) on `before`; returns what it made.
inline std::unique_ptr<Graph> run_on(const std::string& name, const PassFunction& pass, const std::string& before,
                                     bool* changed = nullptr) {
  std::unique_ptr<Graph> graph = parse_graph(before);
  verify(*graph);
  PassOptions options;
  options.verify = true;
  const bool did = run_pass(*graph, {name, "", pass}, options);
  if (changed != nullptr) *changed = did;
  while (run_pass(*graph, {"dead_code", "", remove_dead_code}, options)) {
  }
  return graph;
}

inline void expect_pass(const std::string& name, const PassFunction& pass, const std::string& before,
                        const std::string& after, const Sizes& sizes = {}) {
  SCOPED_TRACE(before);
  bool changed = false;
  std::unique_ptr<Graph> actual = run_on(name, pass, before, &changed);
  EXPECT_TRUE(changed) << name << " said it changed nothing";
  std::unique_ptr<Graph> expected = parse_graph(after);
  EXPECT_EQ(graph_difference(*actual, *expected), "") << print_graph(*actual);
  std::unique_ptr<Graph> original = parse_graph(before);
  expect_same_types(*original, *actual);
  expect_same_results(*original, *actual, 2e-5, sizes);
}

inline void expect_unchanged(const std::string& name, const PassFunction& pass, const std::string& before) {
  SCOPED_TRACE(before);
  bool changed = true;
  std::unique_ptr<Graph> actual = run_on(name, pass, before, &changed);
  EXPECT_FALSE(changed) << print_graph(*actual);
}

}  // namespace deepjit
