#include "passes/fusion/fuse_epilogue.h"

#include "pass_test_util.h"

namespace deepjit {
namespace {

std::string conv_graph(const std::string& statements, const std::string& inputs = "",
                       const std::string& outputs = "%y") {
  return "graph @g(%x: float32[N,3,H,W]" + inputs + ") -> (" + outputs +
         ") { %w = constant float32[4,3,1,1] random(1) " + statements + "}";
}

void expect_fused(const std::string& before, const std::string& after) {
  expect_pass("fuse_epilogue", fuse_epilogue, before, after);
}
void expect_kept(const std::string& text) { expect_unchanged("fuse_epilogue", fuse_epilogue, text); }

TEST(FuseEpilogue, Activations) {
  const std::pair<const char*, const char*> cases[] = {
      {"Relu(%c)", "Relu"},
      {"Sigmoid(%c)", "Sigmoid"},
      {"HardSwish(%c)", "HardSwish"},
      {"Gelu(%c) {approximate=\"tanh\"}", "GeluTanh"},
      {"LeakyRelu(%c) {alpha=0.25}", "LeakyRelu(0.25)"},
      {"HardSigmoid(%c) {alpha=0.25}", "HardSigmoid(0.25,0.5)"},
      {"Swish(%c) {alpha=2.0}", "Swish(2)"},
      {"Clip(%c, %lo, %hi)", "Clip(0,6)"},
      {"Clip(%c, %lo)", "Clip(0,inf)"},
      {"Mul(%c, %hi)", "Linear(6,0)"},
      {"Sub(%hi, %c)", "Linear(-1,6)"},
  };
  for (const auto& [node, entry] : cases) {
    expect_fused(conv_graph("%lo = constant float32[] [0] %hi = constant float32[] [6] %c = Conv(%x, %w) %y = " +
                            std::string(node)),
                 conv_graph("%y = deepjit.Conv(%x, %w, _) {epilogue=[\"" + std::string(entry) + "\"]}"));
  }
}

TEST(FuseEpilogue, ChainsAndResiduals) {
  expect_fused(conv_graph("%r = Abs(%z) %c = Conv(%x, %w) %a = Relu(%c) %y = Add(%r, %a)", ", %z: float32[N,4,H,W]"),
               conv_graph("%r = Abs(%z) %y = deepjit.Conv(%x, %w, _, %r) {epilogue=[\"Relu\", \"Add($3)\"]}",
                          ", %z: float32[N,4,H,W]"));
  // The residual is computed after the convolution.
  expect_fused(conv_graph("%c = Conv(%x, %w) %r = Abs(%z) %a = Add(%c, %r) %y = Relu(%a)", ", %z: float32[N,4,H,W]"),
               conv_graph("%r = Abs(%z) %y = deepjit.Conv(%x, %w, _, %r) {epilogue=[\"Add($3)\", \"Relu\"]}",
                          ", %z: float32[N,4,H,W]"));
  expect_fused(conv_graph("%s = constant float32[] [2] %t = constant float32[] [3] %c = Conv(%x, %w) "
                          "%a = Mul(%c, %s) %y = Add(%a, %t)"),
               conv_graph("%y = deepjit.Conv(%x, %w, _) {epilogue=[\"Linear(2,3)\"]}"));
  // Per channel, by a tensor that is computed.
  expect_fused(conv_graph("%g = Sigmoid(%z) %c = Conv(%x, %w) %y = Mul(%c, %g)", ", %z: float32[N,4,1,1]"),
               conv_graph("%g = Sigmoid(%z) %y = deepjit.Conv(%x, %w, _, %g) {epilogue=[\"Mul($3)\"]}",
                          ", %z: float32[N,4,1,1]"));
}

TEST(FuseEpilogue, WhatMustStay) {
  // Read twice, or an output.
  expect_kept(conv_graph("%c = Conv(%x, %w) %a = Abs(%c) %y = Pow(%a, %c)"));
  expect_kept(conv_graph("%c = Conv(%x, %w) %y = Relu(%c)", "", "%c, %y"));
  expect_kept(conv_graph("%c = Conv(%x, %w) %y = Add(%c, %c)"));
  // The other operand enlarges the result, or may.
  expect_kept(conv_graph("%c = Conv(%x, %w) %y = Add(%c, %z)", ", %z: float32[2,1,1,1,1]"));
  expect_kept(
      "graph @g(%x: float32[1,3,4,4], %z: float32[2,4,4,4]) -> (%y) { %w = constant float32[4,3,1,1] random(1) "
      "%c = Conv(%x, %w) %y = Add(%c, %z) }");
  expect_kept(conv_graph("%c = Conv(%x, %w) %y = Div(%z, %c)", ", %z: float32[N,4,H,W]"));
  // A Clip with min above max is no clamp.
  expect_kept(
      conv_graph("%lo = constant float32[] [6] %hi = constant float32[] [0] %c = Conv(%x, %w) "
                 "%y = Clip(%c, %lo, %hi)"));
}

TEST(FuseEpilogue, AReaderInABodyStays) {
  expect_kept(R"(graph @g(%x: float32[N,3,H,W], %b: bool[]) -> (%y) {
    %w = constant float32[4,3,1,1] random(1)
    %c = Conv(%x, %w)
    %y = If(%b) then { %r = Relu(%c) -> (%r) } else { %z = constant float32[1] [0] -> (%z) }
  })");
}

TEST(FuseEpilogue, MatMulBiasAndTransposedSide) {
  const std::string head = "graph @g(%x: float32[N,5,3], %z: float32[N,4,3]) -> (%y) { ";
  expect_fused(head +
                   "%w = constant float32[3,4] random(1) %b = constant float32[4] random(2) %c = MatMul(%x, %w) "
                   "%d = Add(%b, %c) %y = Relu(%d) }",
               head +
                   "%w = constant float32[3,4] random(1) %b = constant float32[4] random(2) "
                   "%y = deepjit.MatMul(%x, %w, %b) {epilogue=[\"Relu\"]} }");
  expect_fused(head + "%t = Transpose(%z) {perm=[0,2,1]} %y = MatMul(%x, %t) }",
               head + "%y = deepjit.MatMul(%x, %z) {trans_b=1} }");
  expect_kept(
      "graph @g(%x: float32[2,3,3], %z: float32[3,2,3]) -> (%y) { %t = Transpose(%z) {perm=[1,2,0]} "
      "%y = MatMul(%x, %t) }");
}

TEST(FuseEpilogue, Gemm) {
  const std::string head =
      "graph @g(%x: float32[N,3]) -> (%y) { %w = constant float32[4,3] random(1) %b = constant float32[4] random(2) "
      "%m = constant float32[1,4] random(2) ";
  expect_fused(head + "%c = Gemm(%x, %w, %b) {transB=1} %y = Relu(%c) }",
               head + "%y = deepjit.MatMul(%x, %w, %b) {trans_b=1, epilogue=[\"Relu\"]} }");
  expect_fused(head + "%c = Gemm(%x, %w, %m) {transB=1} %y = Relu(%c) }",
               head + "%y = deepjit.MatMul(%x, %w, _, %m) {trans_b=1, epilogue=[\"Add($3)\", \"Relu\"]} }");
  expect_kept(head + "%c = Gemm(%x, %w, %b) {transB=1, alpha=2.0} %y = Relu(%c) }");
}

}  // namespace
}  // namespace deepjit
