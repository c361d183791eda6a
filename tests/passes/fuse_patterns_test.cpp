#include "passes/fusion/fuse_patterns.h"

#include "pass_test_util.h"

namespace deepjit {
namespace {

const char* kHead = R"(graph @g(%x: float32[N,C,4]) -> (%y) {
    %three = constant float32[] [3]
    %zero = constant float32[] [0]
    %six = constant float32[1] [6]
    %sixth = constant float32[1,1] [0.16666667]
    %half = constant float32[1] [0.5]
    %one = constant float32[] [1]
    %two = constant float32[] [2]
    %eps = constant float32[] [0.00001]
    %root2 = constant float32[] [1.4142135]
    %k = constant float32[] [0.7978846]
    %a = constant float32[] [0.044715]
    %last = constant int64[1] [-1]
)";

void expect_fused(const std::string& statements, const std::string& fused) {
  expect_pass("fuse_patterns", fuse_patterns, kHead + statements + "}",
              "graph @g(%x: float32[N,C,4]) -> (%y) {" + fused + "}");
}

void expect_kept(const std::string& statements) {
  expect_unchanged("fuse_patterns", fuse_patterns, kHead + statements + "}");
}

TEST(FusePatterns, HardSwish) {
  const std::string clip = "%p = Add(%x, %three) %q = Clip(%p, %zero, %six0) ";
  const std::string six0 = "%six0 = constant float32[] [6] ";
  for (const char* tail : {
           "%r = Mul(%x, %q) %y = Div(%r, %six)",
           "%r = Div(%q, %six) %y = Mul(%x, %r)",
           "%r = Mul(%q, %x) %y = Mul(%r, %sixth)",
           "%r = Div(%x, %six) %y = Mul(%r, %q)",
       }) {
    expect_fused(six0 + clip + tail, "%y = HardSwish(%x)");
  }
  expect_fused("%q = HardSigmoid(%x) {alpha=0.1666667, beta=0.5} %y = Mul(%x, %q)", "%y = HardSwish(%x)");
}

TEST(FusePatterns, NotHardSwish) {
  const std::string six0 = "%six0 = constant float32[] [6] ";
  expect_kept(six0 + "%p = Add(%x, %two) %q = Clip(%p, %zero, %six0) %r = Mul(%x, %q) %y = Div(%r, %six)");
  expect_kept(six0 + "%p = Add(%x, %three) %q = Clip(%p, %zero, %six0) %r = Mul(%x, %q) %y = Div(%r, %two)");
  expect_kept(six0 +
              "%z = Abs(%x) %p = Add(%x, %three) %q = Clip(%p, %zero, %six0) %r = Mul(%z, %q) %y = Div(%r, %six)");
  expect_kept("%q = HardSigmoid(%x) %y = Mul(%x, %q)");
  // The constant adds a dimension.
  expect_kept(six0 +
              "%w = constant float32[1,1,1,1] [6] %p = Add(%x, %three) %q = Clip(%p, %zero, %six0) "
              "%r = Mul(%x, %q) %y = Div(%r, %w)");
}

TEST(FusePatterns, ABoundThatIsNaNMakesTheResultNaN) {
  const std::string nan = "%nan = constant float32[] [nan] ";
  expect_kept(nan + "%y = Max(%x, %nan)");
  expect_kept(nan + "%y = Min(%nan, %x)");
  expect_kept(nan + "%q = Clip(%x, %zero, %nan) %y = Clip(%q, %zero, %three)");
}

TEST(FusePatterns, AnInteriorValueThatIsAnOutput) {
  const std::string head =
      std::string(kHead).replace(0, std::string(kHead).find('{'), "graph @g(%x: float32[N,C,4]) -> (%r, %y) ");
  std::unique_ptr<Graph> graph =
      run_on("fuse_patterns", fuse_patterns, head + "%s = Sigmoid(%x) %r = Mul(%x, %s) %y = Mul(%r, %two) }");
  expect_same_results(*parse_graph(head + "%s = Sigmoid(%x) %r = Mul(%x, %s) %y = Mul(%r, %two) }"), *graph);
}

TEST(FusePatterns, Swish) {
  expect_fused("%s = Sigmoid(%x) %y = Mul(%x, %s)", "%y = Swish(%x) {alpha=1.0}");
  expect_fused("%t = Mul(%x, %two) %s = Sigmoid(%t) %y = Mul(%s, %x)", "%y = Swish(%x) {alpha=2.0}");
  expect_kept("%t = Abs(%x) %s = Sigmoid(%t) %y = Mul(%s, %x)");
}

TEST(FusePatterns, Gelu) {
  const std::string erf = "%p = Div(%x, %root2) %q = Erf(%p) %r = Add(%q, %one) ";
  expect_fused(erf + "%s = Mul(%x, %r) %y = Mul(%s, %half)", "%y = Gelu(%x)");
  expect_fused(erf + "%s = Mul(%x, %half) %y = Mul(%s, %r)", "%y = Gelu(%x)");
  const std::string tanh = "%n = Add(%x, %c3) %u = Mul(%k, %n) %t = Tanh(%u) %r = Add(%one, %t) ";
  const std::string cube1 = "%c1 = Mul(%a, %x) %c2 = Mul(%x, %c1) %c3 = Mul(%x, %c2) ";
  const std::string cube2 = "%c1 = Pow(%x, %three) %c3 = Mul(%c1, %a) ";
  for (const std::string& cube : {cube1, cube2}) {
    expect_fused(cube + tanh + "%s = Mul(%half, %r) %y = Mul(%x, %s)", "%y = Gelu(%x) {approximate=\"tanh\"}");
  }
  expect_kept("%p = Div(%x, %two) %q = Erf(%p) %r = Add(%q, %one) %s = Mul(%x, %r) %y = Mul(%s, %half)");
}

TEST(FusePatterns, Square) {
  expect_fused("%y = Pow(%x, %two)", "%y = Mul(%x, %x)");
  expect_kept("%y = Pow(%x, %three)");
}

TEST(FusePatterns, ReluAndClip) {
  expect_fused("%y = Max(%x, %zero)", "%y = Relu(%x)");
  expect_fused("%p = Max(%x, %one) %y = Min(%p, %two)",
               "%l = constant float32[] [1] %h = constant float32[] [2] %y = Clip(%x, %l, %h)");
  // lo > hi: the Min is applied last and wins.
  expect_kept("%l = constant float32[3,1] [1,2,3] %y = Max(%x, %l)");
  std::unique_ptr<Graph> graph =
      run_on("fuse_patterns", fuse_patterns, std::string(kHead) + "%p = Max(%x, %two) %y = Min(%p, %one) }");
  expect_same_results(*parse_graph(std::string(kHead) + "%p = Max(%x, %two) %y = Min(%p, %one) }"), *graph);
}

TEST(FusePatterns, LayerNormalization) {
  const std::string core =
      "%m = ReduceMean(%x, %last) %d = Sub(%x, %m) %s = Pow(%d, %two) %v = ReduceMean(%s, %last) "
      "%e = Add(%v, %eps) %r = Sqrt(%e) ";
  const std::string ones = "%o = constant float32[4] fill(1) ";
  expect_fused(core + "%y = Div(%d, %r)", ones + "%y = LayerNormalization(%x, %o) {axis=-1, epsilon=0.00001}");
  expect_fused(core + "%i = Reciprocal(%r) %y = Mul(%d, %i)",
               ones + "%y = LayerNormalization(%x, %o) {axis=-1, epsilon=0.00001}");
  const std::string params = "%g = constant float32[4] random(1) %b = constant float32[4] random(2) ";
  expect_fused(params + core + "%n = Div(%d, %r) %h = Mul(%n, %g) %y = Add(%h, %b)",
               params + "%y = LayerNormalization(%x, %g, %b) {axis=-1, epsilon=0.00001}");
}

TEST(FusePatterns, LayerNormalizationScales) {
  // Scales of one element spread; others that are not along the last axis stay a Mul.
  const std::string core =
      "%m = ReduceMean(%x, %last) %d = Sub(%x, %m) %s = Mul(%d, %d) %v = ReduceMean(%s, %last) "
      "%e = Add(%v, %eps) %r = Sqrt(%e) %n = Div(%d, %r) ";
  const std::string norm = "%n = LayerNormalization(%x, %o) {axis=-1, epsilon=0.00001} ";
  const std::string ones = "%o = constant float32[4] fill(1) ";
  expect_fused("%g = constant float32[1] [2] " + core + "%y = Mul(%n, %g)",
               "%o = constant float32[4] fill(2) %y = LayerNormalization(%x, %o) {axis=-1, epsilon=0.00001}");
  expect_fused("%g = constant float32[1,1,4] random(1) " + core + "%y = Mul(%n, %g)",
               "%g = constant float32[4] random(1) %y = LayerNormalization(%x, %g) {axis=-1, epsilon=0.00001}");
  for (const char* g : {"%g = constant float32[3,1] random(1) ", "%g = constant float32[2,3,4] random(1) "}) {
    expect_fused(g + core + "%y = Mul(%n, %g)", g + ones + norm + "%y = Mul(%n, %g)");
  }
}

TEST(FusePatterns, LayerNormalizationOfOneElementWithALargerScale) {
  const std::string text = R"(graph @g(%x: float32[1,1]) -> (%y) {
    %last = constant int64[1] [-1] %eps = constant float32[] [0.00001] %g = constant float32[2] [3, 4]
    %m = ReduceMean(%x, %last) %d = Sub(%x, %m) %s = Mul(%d, %d) %v = ReduceMean(%s, %last)
    %e = Add(%v, %eps) %r = Sqrt(%e) %n = Div(%d, %r) %y = Mul(%n, %g)
  })";
  std::unique_ptr<Graph> graph = run_on("fuse_patterns", fuse_patterns, text);
  EXPECT_EQ(graph->outputs[0]->type.to_string(), "float32[1,2]");
  expect_same_results(*parse_graph(text), *graph);
}

TEST(FusePatterns, Softmax) {
  const std::string axis = "%ax = constant int64[1] [1] %bx = constant int64[1] [-2] ";
  const std::string head = "%m = ReduceMax(%x, %ax) %d = Sub(%x, %m) %e = Exp(%d) ";
  expect_fused(axis + head + "%s = ReduceSum(%e, %bx) %y = Div(%e, %s)", "%y = Softmax(%x) {axis=1}");
  expect_kept(axis + head + "%s = ReduceSum(%e, %last) %y = Div(%e, %s)");
}

}  // namespace
}  // namespace deepjit
