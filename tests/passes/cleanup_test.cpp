// dead_code, common_subexpressions and the pipeline around them.
#include "pass_test_util.h"
#include "passes/cleanup/common_subexpressions.h"
#include "passes/pipeline.h"

namespace deepjit {
namespace {

TEST(DeadCode, UnreadNodesOutputsAndConstants) {
  std::unique_ptr<Graph> graph = run_on("dead_code", remove_dead_code, R"(graph @g(%x: float32[2]) -> (%y) {
    %c = constant float32[2] [1, 2]
    %a = Add(%x, %c)
    %b = Neg(%a)
    %y = Exp(%x)
  })");
  EXPECT_EQ(print_graph(*graph), "graph @g(%x: float32[2]) -> (%y) {\n  %y: float32[2] = Exp(%x)\n}\n");
}

TEST(DeadCode, OutputsOfIf) {
  expect_pass("dead_code", remove_dead_code,
              R"(graph @g(%x: float32[2], %c: bool[]) -> (%y) {
    %y, %z = If(%c) then {
      %a = Neg(%x) %b = Exp(%x)
      -> (%a, %b)
    } else { -> (%x, %x) }
  })",
              R"(graph @g(%x: float32[2], %c: bool[]) -> (%y) {
    %y = If(%c) then { %a = Neg(%x) -> (%a) } else { -> (%x) }
  })");
}

TEST(CommonSubexpressions, EqualNodesAndConstants) {
  expect_pass("common_subexpressions", merge_common_subexpressions,
              R"(graph @g(%x: float32[2]) -> (%y) {
    %c = constant float32[2] [1, 2]
    %d = constant float32[2] [1, 2]
    %a = Add(%x, %c)
    %b = Add(%x, %d)
    %y = Mul(%a, %b)
  })",
              R"(graph @g(%x: float32[2]) -> (%y) {
    %c = constant float32[2] [1, 2]
    %a = Add(%x, %c)
    %y = Mul(%a, %a)
  })");
}

TEST(CommonSubexpressions, DifferentThingsStay) {
  for (const char* body : {
           "%a = LeakyRelu(%x) {alpha=0.1} %b = LeakyRelu(%x) {alpha=0.2} %y = Add(%a, %b)",
           "%c = constant float32[1] [1] %d = constant float32[1,1] [1] %a = Add(%x, %c) %b = Div(%x, %d) %y = Add(%a, "
           "%b)",
           "%c = constant float32[1] [0] %d = constant float32[1] [-0] %a = Div(%x, %c) %b = Div(%x, %d) %y = Add(%a, "
           "%b)",
       }) {
    expect_unchanged("common_subexpressions", merge_common_subexpressions,
                     "graph @g(%x: float32[2]) -> (%y) { " + std::string(body) + " }");
  }
  // Both names must stay.
  expect_unchanged("common_subexpressions", merge_common_subexpressions,
                   "graph @g(%x: float32[2]) -> (%a, %b) { %a = Neg(%x) %b = Neg(%x) }");
}

const char* kDebris = R"(graph @g(%x: float32[N,3]) -> (%y) {
    %one = constant float32[1] [1]
    %two = constant float32[1] [2]
    %zero = Sub(%one, %one)
    %a = Add(%x, %zero)
    %b = Mul(%x, %two)
    %c = Mul(%a, %two)
    %y = Add(%b, %c)
  })";

TEST(Pipeline, CleanupReachesAFixpoint) {
  std::unique_ptr<Graph> graph = parse_graph(kDebris);
  PassOptions options;
  options.verify = true;
  std::vector<std::string> dumped;
  options.dump = [&](const std::string& pass, const Graph&) { dumped.push_back(pass); };
  const PassReport report = run_pipeline(*graph, options);
  EXPECT_EQ(graph_difference(*graph, *parse_graph(R"(graph @g(%x: float32[N,3]) -> (%y) {
    %two = constant float32[1] [2]
    %b = Mul(%x, %two)
    %y = Add(%b, %b)
  })")),
            "")
      << print_graph(*graph);
  EXPECT_EQ(report.nodes_before, 5);
  EXPECT_EQ(report.nodes_after, 2);
  EXPECT_FALSE(dumped.empty());
}

TEST(Pipeline, AnyPassOffKeepsResults) {
  for (const Pass& pass : default_pipeline(3)) {
    EXPECT_FALSE(pass.why.empty()) << pass.name;
    std::unique_ptr<Graph> graph = parse_graph(kDebris);
    PassOptions options;
    options.verify = true;
    options.disabled = {pass.name};
    const PassReport report = run_pipeline(*graph, options);
    for (const PassStat& stat : report.passes) EXPECT_NE(stat.name, pass.name);
    expect_same_results(*parse_graph(kDebris), *graph);
  }
}

TEST(Pipeline, LevelZeroDoesNothing) {
  std::unique_ptr<Graph> graph = parse_graph(kDebris);
  PassOptions options;
  options.level = 0;
  run_pipeline(*graph, options);
  EXPECT_EQ(graph_difference(*graph, *parse_graph(kDebris)), "");
}

}  // namespace
}  // namespace deepjit
