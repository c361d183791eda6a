#include "passes/layout/layout_nhwc.h"

#include "pass_test_util.h"
#include "passes/pipeline.h"

namespace deepjit {
namespace {

TEST(LayoutNhwc, ConvBetweenTransposes) {
  expect_pass("layout_nhwc", use_nhwc, R"(graph @g(%x: float32[N,3,H,W]) -> (%y) {
    %w = constant float32[4,3,3,3] random(1)
    %y = Conv(%x, %w) {pads=[1,1,1,1]}
  })",
              R"(graph @g(%x: float32[N,3,H,W]) -> (%y) {
    %w = constant float32[4,3,3,3] random(1)
    %t = Transpose(%x) {perm=[0,2,3,1]}
    %c = deepjit.Conv(%t, %w) {layout="NHWC", pads=[1,1,1,1]}
    %y = Transpose(%c) {perm=[0,3,1,2]}
  })");
}

TEST(LayoutNhwc, SixteenBits) {
  for (const char* type : {"float16", "bfloat16"}) {
    const std::string t = type;
    expect_pass("layout_nhwc", use_nhwc,
                "graph @g(%x: " + t + "[N,8,H,W]) -> (%y) { %w = constant " + t +
                    "[4,8,3,3] random(1) %y = Conv(%x, %w) {pads=[1,1,1,1]} }",
                "graph @g(%x: " + t + "[N,8,H,W]) -> (%y) { %w = constant " + t +
                    "[4,8,3,3] random(1) %t = Transpose(%x) {perm=[0,2,3,1]} "
                    "%c = deepjit.Conv(%t, %w) {layout=\"NHWC\", pads=[1,1,1,1]} "
                    "%y = Transpose(%c) {perm=[0,3,1,2]} }");
  }
}

// Kernels of 16 bits read eight channels at a time.
TEST(LayoutNhwc, FewChannelsOfSixteenBitsGetZeros) {
  const std::string text = R"(graph @g(%x: float16[N,3,H,W]) -> (%y) {
    %w = constant float16[4,3,3,3] random(1)
    %y = Conv(%x, %w) {pads=[1,1,1,1]}
  })";
  std::unique_ptr<Graph> graph = run_on("layout_nhwc", use_nhwc, text);
  const Node* conv = nullptr;
  for (const auto& node : graph->nodes()) conv = node->op == "deepjit.Conv" ? node.get() : conv;
  ASSERT_NE(conv, nullptr) << print_graph(*graph);
  EXPECT_EQ(conv->input(0)->producer->op, "Pad");
  EXPECT_EQ(conv->input(1)->constant.dims(), (Dims{4, 8, 3, 3}));
  const std::vector<Tensor> inputs = random_inputs(*graph, 3);
  expect_close(eval_graph(*parse_graph(text), inputs)[0], eval_graph(*graph, inputs)[0], 0, "padded channels");
}

TEST(LayoutNhwc, WhatTakesAllPositionsIsAReduction) {
  for (const auto& [pool, reduction] :
       {std::pair{"GlobalAveragePool", "ReduceMean"}, std::pair{"GlobalMaxPool", "ReduceMax"}}) {
    expect_pass("layout_nhwc", use_nhwc,
                "graph @g(%x: float32[N,3,H,W]) -> (%y) { %y = " + std::string(pool) + "(%x) }",
                "graph @g(%x: float32[N,3,H,W]) -> (%y) { %a = constant int64[2] [2,3] %y = " + std::string(reduction) +
                    "(%x, %a) }");
  }
}

TEST(LayoutNhwc, OtherRanksAndTypesStay) {
  expect_unchanged("layout_nhwc", use_nhwc,
                   "graph @g(%x: float32[N,3,H]) -> (%y) { %w = constant float32[4,3,3] random(1) %y = Conv(%x, %w) }");
  expect_unchanged(
      "layout_nhwc", use_nhwc,
      "graph @g(%x: float64[N,3,H,W]) -> (%y) { %w = constant float64[4,3,1,1] random(1) %y = Conv(%x, %w) }");
  expect_unchanged("layout_nhwc", use_nhwc,
                   "graph @g(%x: float32[N,3,H,W]) -> (%y, %i) { %y, %i = MaxPool(%x) {kernel_shape=[2,2]} }");
}

// A small network with everything between convolutions: only the ends keep a Transpose.
TEST(LayoutNhwc, TransposesCancelInANetwork) {
  const std::string text = R"(graph @g(%x: float32[N,3,H,W]) -> (%y) {
    %w1 = constant float32[8,3,3,3] random(1)
    %w2 = constant float32[8,1,3,3] random(2)
    %w3 = constant float32[8,8,1,1] random(3)
    %w4 = constant float32[8,8,1,1] random(4)
    %k = constant float32[1,8,1,1] random(5)
    %up = constant float32[4] [1, 1, 2, 2]
    %c1 = Conv(%x, %w1) {pads=[1,1,1,1]}
    %a1 = HardSwish(%c1)
    %m = Mul(%a1, %k)
    %c2 = Conv(%m, %w2) {pads=[1,1,1,1], group=8}
    %g = GlobalAveragePool(%c2)
    %s1 = Conv(%g, %w4)
    %s2 = HardSigmoid(%s1)
    %se = Mul(%c2, %s2)
    %c3 = Conv(%se, %w3)
    %add = Add(%c3, %a1)
    %p = MaxPool(%add) {kernel_shape=[2,2], strides=[2,2]}
    %u = Resize(%p, _, %up) {mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"}
    %cat = Concat(%u, %u) {axis=1}
    %y = AveragePool(%cat) {kernel_shape=[2,2]}
  })";
  std::unique_ptr<Graph> graph = parse_graph(text);
  PassOptions options;
  options.verify = true;
  run_pipeline(*graph, options);
  int transposes = 0;
  for (const auto& node : graph->nodes()) transposes += node->op == "Transpose";
  EXPECT_EQ(transposes, 2) << print_graph(*graph);
  expect_same_results(*parse_graph(text), *graph, 1e-4, {{"H", 8}, {"W", 6}});
}

}  // namespace
}  // namespace deepjit
