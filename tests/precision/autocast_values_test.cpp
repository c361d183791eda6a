// What a node's constants and the values seen on samples make of it.
#include "autocast_test_util.h"

namespace deepjit {
namespace {

TEST(Autocast, WeightsThatDoNotFit) {
  for (const char* weights : {"[1, 2, 3, 1e5]", "[1e-7, 2e-7, 1e-8, -3e-8]"}) {
    expect_kept("graph @g(%x: float32[N,2]) -> (%y) { %w = constant float32[2,2] " + std::string(weights) +
                " %y = MatMul(%x, %w) }");
  }
  // Small ones beside others lose nothing that counts; a bias may vanish; an epsilon may not.
  const auto graph = run_on("autocast", to_half(), R"(graph @g(%x: float32[N,2]) -> (%y, %z) {
    %w = constant float32[2,2] [1, 2e-8, 0.5, 3]
    %b = constant float32[2] [1e-9, 1e-9]
    %e = constant float32[] [1e-9]
    %m = MatMul(%x, %w)
    %a = Add(%m, %b)
    %n = Add(%a, %e)
    %y = Relu(%a)
    %z = Sqrt(%n)
  })");
  EXPECT_EQ(type_of(*graph, "m"), "float16");
  EXPECT_EQ(type_of(*graph, "a"), "float16");
  EXPECT_EQ(type_of(*graph, "n"), "float32");
}

TEST(Autocast, AMask) {
  const std::string text = R"(graph @g(%q: float32[N,3,4], %k: float32[N,4,3], %mask: bool[N,3,3]) -> (%y) {
    %low = constant float32[] [-3.4028234e38]
    %s = MatMul(%q, %k)
    %m = Where(%mask, %low, %s)
    %p = Softmax(%m) {axis=-1}
    %y = MatMul(%p, %q)
  })";
  const auto graph = run_on("autocast", to_half(), text);
  EXPECT_EQ(type_of(*graph, "s"), "float16");
  EXPECT_EQ(type_of(*graph, "m"), "float32");
  EXPECT_EQ(type_of(*graph, "p"), "float32");
  expect_same_results(*parse_graph(text), *graph, kHalf);
  std::vector<Tensor> inputs = random_inputs(*graph, 3);
  std::fill_n(inputs[2].as<uint8_t>(), inputs[2].count(), uint8_t{1});
  expect_close(eval_graph(*parse_graph(text), inputs)[0], eval_graph(*graph, inputs)[0], kHalf, "all masked");
}

TEST(Autocast, WhatDoesNotFitIsFollowed) {
  const auto graph =
      run_on("autocast", to_half(), R"(graph @g(%x: float32[N,4], %m: int64[N,4], %w: float32[4,4]) -> (%y) {
    %one = constant float32[] [1]
    %low = constant float32[] [-3.4028234e38]
    %f = Cast(%m) {to=1}
    %i = Sub(%one, %f)
    %b = Mul(%i, %low)
    %s = MatMul(%x, %w)
    %a = Add(%s, %b)
    %r = LeakyRelu(%a)
    %p = Softmax(%r) {axis=-1}
    %q = Mul(%p, %one)
    %y = MatMul(%q, %w)
  })");
  for (const char* name : {"b", "a", "r", "p"}) EXPECT_EQ(type_of(*graph, name), "float32") << name;
  EXPECT_EQ(type_of(*graph, "q"), "float16");
}

TEST(Autocast, AMaskThatIsMadeWhileRunning) {
  const auto graph = run_on("autocast", to_half(), R"(graph @g(%x: float32[N,4,4], %w: float32[4,4]) -> (%y) {
    %s = Shape(%x)
    %f = ConstantOfShape(%s) {value=float32[1] [-3.4028234e38]}
    %t = Trilu(%f) {upper=1}
    %m = MatMul(%x, %w)
    %a = Add(%m, %t)
    %p = Softmax(%a) {axis=-1}
    %y = MatMul(%p, %w)
  })");
  for (const char* name : {"f", "t", "a", "p"}) EXPECT_EQ(type_of(*graph, name), "float32") << name;
}

TEST(Autocast, ABoundThatOnlyMeansNone) {
  const auto graph = run_on("autocast", to_half(), R"(graph @g(%x: float32[N,4], %w: float32[4,4]) -> (%y) {
    %zero = constant float32[] [0]
    %top = constant float32[] [3.4028234e38]
    %m = MatMul(%x, %w)
    %c = Clip(%m, %zero, %top)
    %y = MatMul(%c, %w)
  })");
  EXPECT_EQ(type_of(*graph, "c"), "float16");
}

TEST(Autocast, ValuesSeen) {
  const std::string text = R"(graph @g(%x: float32[N,2]) -> (%y) {
    %w = constant float32[2,2] [1, 0.5, -1, 2]
    %m = MatMul(%x, %w)
    %n = MatMul(%m, %w)
    %r = Relu(%n)
    %t = Tanh(%r)
    %y = MatMul(%t, %w)
  })";
  PrecisionNotes notes;
  const auto graph =
      run_on("autocast", to_half(&notes, {{"x", 4}, {"m", 9}, {"n", 81000}, {"r", 40000}, {"t", 1}, {"y", 3}}), text);
  EXPECT_EQ(type_of(*graph, "m"), "float16");
  for (const char* name : {"n", "r", "t"}) EXPECT_EQ(type_of(*graph, name), "float32") << name;
  EXPECT_EQ(notes.count("fp32: seen values up to 8.1e+04"), 1u);
  EXPECT_EQ(notes.count("fp32: seen values up to 4e+04"), 1u);
  // Values that were seen to fit fit, whatever a constant makes of them.
  EXPECT_EQ(
      type_of(*run_on("autocast", to_half(nullptr, {{"x", 4}, {"m", 1e-6}, {"n", 2}, {"r", 2}, {"t", 1}}), text), "m"),
      "float32");
}

}  // namespace
}  // namespace deepjit
