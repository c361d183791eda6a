#include "passes/fusion/fold_pads.h"

#include "pass_test_util.h"
#include "passes/cleanup/refresh_types.h"

namespace deepjit {
namespace {

TEST(FoldPads, IntoAConvolution) {
  expect_pass("fold_pads", fold_pads, R"(graph @g(%x: float32[N,3,H,W]) -> (%y) {
    %w = constant float32[4,3,3,3] random(1) %p = constant int64[8] [0,0,1,2,0,0,3,0]
    %q = Pad(%x, %p) %y = Conv(%q, %w) {pads=[1,0,0,1]}
  })",
              R"(graph @g(%x: float32[N,3,H,W]) -> (%y) {
    %w = constant float32[4,3,3,3] random(1) %y = Conv(%x, %w) {pads=[2,2,3,1]}
  })");
  expect_pass("fold_pads", fold_pads, R"(graph @g(%x: float32[N,H,W,3]) -> (%y) {
    %w = constant float32[4,3,3,3] random(1) %p = constant int64[2] [1,2] %a = constant int64[1] [-2]
    %q = Pad(%x, %p, _, %a) %y = deepjit.Conv(%q, %w) {layout="NHWC"}
  })",
              R"(graph @g(%x: float32[N,H,W,3]) -> (%y) {
    %w = constant float32[4,3,3,3] random(1) %y = deepjit.Conv(%x, %w) {layout="NHWC", pads=[0,1,0,2]}
  })");
}

TEST(FoldPads, WhatMustStay) {
  const std::string head =
      "graph @g(%x: float32[N,3,H,W]) -> (%y) { %w = constant float32[4,3,3,3] random(1) "
      "%p = constant int64[8] [0,0,1,1,0,0,1,1] %c = constant int64[8] [0,1,0,0,0,0,0,0] "
      "%n = constant int64[8] [0,0,-1,0,0,0,0,0] %v = constant float32[] [1] %w4 = constant "
      "float32[4,4,3,3] random(1) ";
  for (const char* text : {
           "%q = Pad(%x, %p, %v) %y = Conv(%q, %w) }",                                    // not zeros
           "%q = Pad(%x, %p) {mode=\"edge\"} %y = Conv(%q, %w) }",                        //
           "%q = Pad(%x, %c) %y = Conv(%q, %w4) }",                                       // channels
           "%q = Pad(%x, %n) %y = Conv(%q, %w) }",                                        // a crop
           "%q = Pad(%x, %p) %y = Conv(%q, %w) {auto_pad=\"SAME_UPPER\"} }",              //
           "%q = Pad(%x, %p) %y = AveragePool(%q) {kernel_shape=[3,3]} }",                // zeros count there
           "%q = Pad(%x, %p) %y = MaxPool(%q) {kernel_shape=[3,3]} }",                    // the zero can be the maximum
           "%q = Pad(%x, %p) %c1 = Conv(%q, %w) %r = ReduceSum(%q) %y = Add(%c1, %r) }",  // read elsewhere
       }) {
    expect_unchanged("fold_pads", fold_pads, head + text);
  }
}

TEST(RefreshTypes, LearnsFromAConstant) {
  std::unique_ptr<Graph> graph =
      parse_graph("graph @g(%x: float32[4,6], %s: int64[2]) -> (%y) { %p = Reshape(%x, %s) %y = Relu(%p) }");
  EXPECT_FALSE(refresh_types(*graph));
  Node* reshape = graph->nodes().front().get();
  graph->set_input(reshape, 1, graph->add_constant(Tensor::vector_i64(std::vector<int64_t>{3, 8})));
  EXPECT_TRUE(refresh_types(*graph));
  EXPECT_EQ(graph->outputs[0]->type.to_string(), "float32[3,8]");
  EXPECT_FALSE(refresh_types(*graph));
}

TEST(RefreshTypes, KeepsNamesOfUnknownDims) {
  std::unique_ptr<Graph> graph =
      parse_graph("graph @g(%x: float32[4,6], %s: int64[2]) -> (%y) { %p = Reshape(%x, %s) %y = Relu(%p) }");
  const std::string before = graph->outputs[0]->type.to_string();
  refresh_types(*graph);
  EXPECT_EQ(graph->outputs[0]->type.to_string(), before);
}

}  // namespace
}  // namespace deepjit
