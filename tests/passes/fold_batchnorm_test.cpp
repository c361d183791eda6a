#include "passes/fusion/fold_batchnorm.h"

#include "pass_test_util.h"

namespace deepjit {
namespace {

const char* kParams = R"(
    %s = constant float32[4] random(2, 0.5, 2)
    %b = constant float32[4] random(3)
    %m = constant float32[4] random(4)
    %v = constant float32[4] random(5, 0.5, 2)
    %w = constant float32[4,3,3,3] random(1)
)";

// The graph must become `op` alone, with the same results.
void expect_only(const std::string& op, const std::string& text, size_t nodes = 1) {
  SCOPED_TRACE(text);
  std::unique_ptr<Graph> actual = run_on("fold_batchnorm", fold_batchnorm, text);
  EXPECT_EQ(actual->nodes().size(), nodes) << print_graph(*actual);
  EXPECT_EQ(actual->nodes().front()->op, op);
  std::unique_ptr<Graph> original = parse_graph(text);
  expect_same_types(*original, *actual);
  expect_same_results(*original, *actual, 1e-4);
}

std::string conv(const std::string& statements) {
  return std::string("graph @g(%x: float32[N,3,H,W]) -> (%y) {") + kParams + statements + "}";
}

TEST(FoldBatchnorm, AfterConv) {
  expect_only("Conv", conv("%c = Conv(%x, %w) %y = BatchNormalization(%c, %s, %b, %m, %v) {epsilon=0.001}"));
  expect_only("Conv", conv("%c = Conv(%x, %w, %b) {pads=[1,1,1,1]} %y = BatchNormalization(%c, %s, %b, %m, %v)"));
}

TEST(FoldBatchnorm, HandWrittenChains) {
  const std::string k = "%k = constant float32[1,4,1,1] random(8, 0.5, 2) %t = constant float32[1] [0.25] ";
  expect_only("Conv", conv(k + "%c = Conv(%x, %w) %p = Sub(%c, %k) %q = Mul(%k, %p) %y = Add(%q, %t)"));
  expect_only("Conv", conv(k + "%c = Conv(%x, %w) %p = Div(%c, %k) %y = Sub(%t, %p)"));
}

TEST(FoldBatchnorm, Negation) {
  expect_only("Conv", conv("%k = constant float32[] [2] %c = Conv(%x, %w, %b) %p = Neg(%c) %y = Add(%p, %k)"));
}

TEST(FoldBatchnorm, ConvTransposeWithGroups) {
  expect_only("ConvTranspose", R"(graph @g(%x: float32[N,4,H,W]) -> (%y) {
    %w = constant float32[4,3,2,2] random(1)
    %s = constant float32[6] random(2, 0.5, 2)
    %b = constant float32[6] random(3)
    %c = ConvTranspose(%x, %w) {group=2, strides=[2,2]}
    %y = BatchNormalization(%c, %s, %b, %b, %s)
  })");
}

TEST(FoldBatchnorm, GemmAndMatMul) {
  const std::string head = R"(graph @g(%x: float32[N,3]) -> (%y) {
    %w = constant float32[3,4] random(1)
    %u = constant float32[4,3] random(1)
    %b = constant float32[4] random(3)
    %k = constant float32[4] random(2, 0.5, 2)
  )";
  expect_only("Gemm", head + "%c = Gemm(%x, %w, %b) {beta=0.5} %q = Mul(%c, %k) %y = Add(%q, %b) }");
  expect_only("Gemm", head + "%c = Gemm(%x, %u) {transB=1, alpha=2.0} %q = Mul(%c, %k) %y = Sub(%q, %b) }");
  expect_only("MatMul", head + "%c = MatMul(%x, %w) %y = Mul(%c, %k) }");
  expect_only("MatMul", head + "%c = MatMul(%x, %w) %q = Mul(%c, %k) %y = Add(%q, %b) }", 2);
}

TEST(FoldBatchnorm, StandaloneBecomesMulAndAdd) {
  const std::string text = R"(graph @g(%x: float32[N,C,H]) -> (%y) {
    %s = constant float32[3] random(2)
    %v = constant float32[3] random(5, 0.5, 2)
    %a = Relu(%x)
    %y = BatchNormalization(%a, %s, %v, %s, %v)
  })";
  std::unique_ptr<Graph> actual = run_on("fold_batchnorm", fold_batchnorm, text);
  ASSERT_EQ(actual->nodes().size(), 3u);
  EXPECT_EQ(actual->nodes().back()->op, "Add");
  expect_same_results(*parse_graph(text), *actual);
}

TEST(FoldBatchnorm, WhatMustStay) {
  // The convolution is read elsewhere, or is an output itself.
  expect_unchanged(
      "fold_batchnorm", fold_batchnorm,
      conv("%c = Conv(%x, %w) %t = constant float32[1] [2] %p = Mul(%c, %t) %q = Relu(%c) %y = Sum(%p, %q)"));
  expect_unchanged("fold_batchnorm", fold_batchnorm,
                   std::string("graph @g(%x: float32[N,3,H,W]) -> (%c, %y) {") + kParams +
                       "%t = constant float32[1] [2] %c = Conv(%x, %w) %y = Mul(%c, %t) }");
  // A full constant is not a bias.
  expect_unchanged("fold_batchnorm", fold_batchnorm, R"(graph @g(%x: float32[N,4,5,5]) -> (%y) {
    %w = constant float32[4,1,3,3] random(1)
    %k = constant float32[1,4,3,3] random(2)
    %c = Conv(%x, %w) {group=4}
    %y = Add(%c, %k)
  })");
  // Along another axis than the channels, and a constant that enlarges the result.
  expect_unchanged("fold_batchnorm", fold_batchnorm, R"(graph @g(%x: float32[N,3,6,6]) -> (%y) {
    %w = constant float32[4,3,3,3] random(1)
    %k = constant float32[1,1,4,1] random(2)
    %c = Conv(%x, %w)
    %y = Mul(%c, %k)
  })");
  expect_unchanged("fold_batchnorm", fold_batchnorm, R"(graph @g(%x: float32[1,3,6,6]) -> (%y) {
    %w = constant float32[4,3,3,3] random(1)
    %k = constant float32[2,4,1,1] random(2)
    %c = Conv(%x, %w)
    %y = Mul(%c, %k)
  })");
  // number / conv is not linear in conv.
  expect_unchanged("fold_batchnorm", fold_batchnorm,
                   conv("%t = constant float32[1] [2] %c = Conv(%x, %w) %y = Div(%t, %c)"));
  // Weights that are fed.
  expect_unchanged("fold_batchnorm", fold_batchnorm, R"(graph @g(%x: float32[N,3,H,W], %w: float32[4,3,3,3]) -> (%y) {
    %t = constant float32[1] [2]
    %c = Conv(%x, %w)
    %y = Mul(%c, %t)
  })");
}

}  // namespace
}  // namespace deepjit
