// one_hot_to_gather and pointwise_over_gather.
#include "pass_test_util.h"
#include "passes/fusion/one_hot_to_gather.h"
#include "passes/fusion/pointwise_over_gather.h"
#include "passes/pipeline.h"

namespace deepjit {
namespace {

// Ids are random in 0..3: the classes 0..2 leave some that match nothing.
const char* kOneHot = R"(graph @g(%ids: int32[N,8]) -> (%y) {
    %w = constant float32[3,5] random(1)
    %row = constant int32[1,1,3] iota
    %ax = constant int64[1] [2]
    %u = Unsqueeze(%ids, %ax)
    %e = Equal(%u, %row)
    %h = Cast(%e) {to=1}
    %y = MatMul(%h, %w)
  })";

int count_ops(const Graph& graph, const std::string& op) {
  int n = 0;
  for (const auto& node : graph.nodes()) n += node->op == op;
  return n;
}

TEST(OneHotToGather, WithIdsOutOfRange) {
  std::unique_ptr<Graph> graph = run_on("one_hot_to_gather", one_hot_to_gather, kOneHot);
  EXPECT_EQ(count_ops(*graph, "MatMul"), 0) << print_graph(*graph);
  EXPECT_EQ(count_ops(*graph, "Gather"), 1);
  const Tensor ids = Tensor::from<int32_t>(DType::INT32, Dims{1, 8},
                                           std::span<const int32_t>(std::vector<int32_t>{0, 1, 2, 3, -1, -3, 100, 2}));
  expect_close(eval_graph(*parse_graph(kOneHot), {ids})[0], eval_graph(*graph, {ids})[0], 0, "rows");
}

TEST(OneHotToGather, WhatIsNoOneHot) {
  const std::string text = kOneHot;
  auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    changed.replace(changed.find(from), from.size(), to);
    return changed;
  };
  expect_unchanged("one_hot_to_gather", one_hot_to_gather, with("int32[1,1,3] iota", "int32[1,1,3] [0,2,1]"));
  // 0 * inf is NaN in every row.
  expect_unchanged("one_hot_to_gather", one_hot_to_gather,
                   with("float32[3,5] random(1)", "float32[3,2] [1,2,3,inf,5,6]"));
}

TEST(PointwiseOverGather, MovesOntoTheTable) {
  const std::string text = R"(graph @g(%ids: int64[N,8]) -> (%y) {
    %t = constant float32[4,3] random(1)
    %b = constant float32[1,1,3] random(2)
    %two = constant float32[] [2]
    %r = Gather(%t, %ids)
    %p = Add(%r, %b)
    %q = Relu(%p)
    %y = Mul(%two, %q)
  })";
  std::unique_ptr<Graph> graph = run_on("pointwise_over_gather", move_pointwise_over_gather, text);
  EXPECT_EQ(graph->nodes().size(), 1u) << print_graph(*graph);
  expect_same_results(*parse_graph(text), *graph, 0);
}

TEST(PointwiseOverGather, WhatMustStay) {
  // Fewer rows are gathered than the table has.
  expect_unchanged("pointwise_over_gather", move_pointwise_over_gather,
                   "graph @g(%ids: int64[2]) -> (%y) { %t = constant float32[4,3] random(1) %r = Gather(%t, %ids) "
                   "%y = Relu(%r) }");
  // The operand differs from row to row, or is fed.
  expect_unchanged("pointwise_over_gather", move_pointwise_over_gather,
                   "graph @g(%ids: int64[8]) -> (%y) { %t = constant float32[4,3] random(1) "
                   "%b = constant float32[8,1] random(2) %r = Gather(%t, %ids) %y = Add(%r, %b) }");
  expect_unchanged("pointwise_over_gather", move_pointwise_over_gather,
                   "graph @g(%ids: int64[8], %b: float32[3]) -> (%y) { %t = constant float32[4,3] random(1) "
                   "%r = Gather(%t, %ids) %y = Add(%r, %b) }");
  // The gathered rows are read as they are too.
  expect_unchanged("pointwise_over_gather", move_pointwise_over_gather,
                   "graph @g(%ids: int64[8]) -> (%r, %y) { %t = constant float32[4,3] random(1) "
                   "%r = Gather(%t, %ids) %y = Relu(%r) }");
}

TEST(PointwiseOverGather, TheWholeChainOfAOneHotEmbedding) {
  std::string text = kOneHot;
  text.replace(text.find("%y = MatMul(%h, %w)"), 19,
               "%m = MatMul(%h, %w) %b = constant float32[1,1,5] random(3) %a = Add(%m, %b) %y = Tanh(%a)");
  std::unique_ptr<Graph> graph = parse_graph(text);
  PassOptions options;
  options.verify = true;
  run_pipeline(*graph, options);
  EXPECT_EQ(count_ops(*graph, "Tanh"), 0) << print_graph(*graph);
  expect_same_results(*parse_graph(text), *graph);
}

}  // namespace
}  // namespace deepjit
