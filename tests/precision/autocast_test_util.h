// Tests of autocast: before and after, and what type a value has.
#pragma once

#include "../passes/pass_test_util.h"
#include "precision/autocast.h"

namespace deepjit {

inline constexpr double kHalf = 5e-3;  // of values of order 1 that were rounded a few times

inline std::function<bool(Graph&)> to_half(PrecisionNotes* notes = nullptr, std::map<std::string, double> seen = {}) {
  AutocastOptions options;
  options.seen = std::move(seen);
  return [options, notes](Graph& graph) { return autocast(graph, options, notes); };
}

// The graph becomes `after`; results agree within what 16 bits can do.
inline void expect_cast(const std::string& before, const std::string& after, std::map<std::string, double> seen = {}) {
  SCOPED_TRACE(before);
  bool changed = false;
  const auto actual = run_on("autocast", to_half(nullptr, std::move(seen)), before, &changed);
  EXPECT_TRUE(changed);
  EXPECT_EQ(graph_difference(*actual, *parse_graph(after)), "") << print_graph(*actual);
  const auto original = parse_graph(before);
  expect_same_types(*original, *actual);
  expect_same_results(*original, *actual, kHalf);
}

inline void expect_kept(const std::string& text) { expect_unchanged("autocast", to_half(), text); }

inline std::string type_of(const Graph& graph, const std::string& name) {
  std::string type = "none";
  for_each_graph(const_cast<Graph&>(graph), [&](Graph& g) {
    g.for_each_value([&](const Value* v) {
      if (v->name == name) type = std::string(dtype_name(v->type.dtype));
    });
  });
  return type;
}

inline int count_casts(const Graph& graph) {
  int casts = 0;
  for_each_graph(const_cast<Graph&>(graph), [&](Graph& g) {
    for (const auto& node : g.nodes()) casts += node->op == "Cast";
  });
  return casts;
}

}  // namespace deepjit
