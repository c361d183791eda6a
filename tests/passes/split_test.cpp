// split_to_slices.
#include "pass_test_util.h"
#include "passes/fusion/split_to_slices.h"

namespace deepjit {
namespace {

int count_ops(const Graph& graph, const std::string& op) {
  int n = 0;
  for (const auto& node : graph.nodes()) n += node->op == op;
  return n;
}

TEST(SplitToSlices, PartsThatKernelsRead) {
  const std::string text = R"(graph @g(%x: float32[N,7,4]) -> (%y, %a) {
    %a, %b, %unread = Split(%x) {axis=-2, num_outputs=3}
    %r = Sigmoid(%b)
    %y = Mul(%r, %r)
  })";
  std::unique_ptr<Graph> graph = run_on("split_to_slices", split_to_slices, text);
  EXPECT_EQ(count_ops(*graph, "Split"), 0) << print_graph(*graph);
  EXPECT_EQ(count_ops(*graph, "Slice"), 2);
  const std::vector<Tensor> inputs = random_inputs(*graph, 3);
  const std::vector<Tensor> want = eval_graph(*parse_graph(text), inputs);
  const std::vector<Tensor> got = eval_graph(*graph, inputs);
  ASSERT_EQ(got.size(), 2u);
  for (size_t i = 0; i < 2; ++i) expect_close(want[i], got[i], 0, "a part");
}

TEST(SplitToSlices, GivenSizesAndViewsBetween) {
  const std::string text = R"(graph @g(%x: float32[5,N]) -> (%y, %z) {
    %s = constant int64[3] [1,0,4]
    %t = constant int64[2] [4,-1]
    %a, %none, %c = Split(%x, %s) {axis=0}
    %r = Reshape(%c, %t)
    %y = Transpose(%r) {perm=[1,0]}
    %z = Concat(%a, %none) {axis=0}
  })";
  std::unique_ptr<Graph> graph = run_on("split_to_slices", split_to_slices, text);
  EXPECT_EQ(count_ops(*graph, "Slice"), 3) << print_graph(*graph);
  const std::vector<Tensor> inputs = random_inputs(*graph, 3);
  const std::vector<Tensor> want = eval_graph(*parse_graph(text), inputs);
  const std::vector<Tensor> got = eval_graph(*graph, inputs);
  for (size_t i = 0; i < 2; ++i) expect_close(want[i], got[i], 0, "a part");
}

TEST(SplitToSlices, StaysWhereNoKernelReadsOrSizesAreOpen) {
  expect_unchanged("split_to_slices", split_to_slices, R"(graph @g(%x: float32[N,4,8]) -> (%y, %b) {
    %w = constant float32[8,3] random(1)
    %a, %b = Split(%x) {axis=1, num_outputs=2}
    %y = MatMul(%a, %w)
  })");
  expect_unchanged("split_to_slices", split_to_slices, R"(graph @g(%x: float32[N,8]) -> (%y) {
    %a, %b = Split(%x) {axis=0, num_outputs=2}
    %y = Concat(%a, %b) {axis=1}
  })");
}

}  // namespace
}  // namespace deepjit
