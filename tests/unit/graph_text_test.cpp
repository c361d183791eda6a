#include <gtest/gtest.h>

#include "graph/equal.h"
#include "graph/parse.h"
#include "graph/print.h"
#include "graph/verify.h"

namespace deepjit {
namespace {

std::string parse_error(const std::string& text) {
  try {
    parse_graph(text);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::PARSE);
    return e.message();
  }
  return "no error";
}

TEST(GraphText, RoundTrip) {
  const std::string text = R"(graph @main(%x: float32[N,3], %k: int64[1] = [4]) -> (%y, %z) {
  %w = constant float32[3] [1.5, -2, 0.1]
  %i = constant int64[2] [-1, 7]
  %s = constant string[1] ["a \"b\""]
  %b = constant bool[2] [true, false]
  %h = constant float16[1] [0.5]
  %a: float32[N,3] = Add(%x, %w) @"first one"
  %y: float32[N,3] = LeakyRelu(%a) {alpha=0.25}
  %z: float32[N,3] = Clip(%a, _, %c)
}
)";
  std::string with_bound = text;
  with_bound.insert(with_bound.find("  %a: "), "  %c = constant float32[] [2]\n");
  std::unique_ptr<Graph> graph = parse_graph(with_bound);
  verify(*graph);
  EXPECT_EQ(print_graph(*graph), with_bound);
  EXPECT_EQ(graph->inputs[1]->default_value.to_i64(), std::vector<int64_t>{4});
  EXPECT_EQ(graph->nodes().front()->name, "first one");
}

TEST(GraphText, BodiesReadOuterValues) {
  const std::string text = R"(graph @main(%x: float32[N], %c: bool[]) -> (%r) {
  %r: float32[N] = If(%c) then {
    %t: float32[N] = Relu(%x)
    -> (%t)
  } else {
    -> (%x)
  }
}
)";
  std::unique_ptr<Graph> graph = parse_graph(text);
  verify(*graph);
  EXPECT_EQ(print_graph(*graph), text);
  EXPECT_EQ(graph->inputs[0]->users.size(), 1u);
}

TEST(GraphText, GeneratedConstants) {
  std::unique_ptr<Graph> graph = parse_graph(R"(graph @g(%x: float32[3]) -> (%d) {
    %a = constant float32[3] fill(0.5)   // a comment
    %b = constant float32[3] iota
    %r = constant float32[3] random(1)
    %c = Add(%a, %b)
    %e = Add(%c, %r)
    %d = Add(%e, %x)
  })");
  const Node& node = *graph->nodes().front();
  EXPECT_EQ(node.inputs[0]->constant.to_f64(), (std::vector<double>{0.5, 0.5, 0.5}));
  EXPECT_EQ(node.inputs[1]->constant.to_f64(), (std::vector<double>{0, 1, 2}));
}

TEST(GraphText, AttributesKeepTheirTypes) {
  const std::string attrs =
      R"({a=1, b=1.0, c="x", d=[1,2], e=[1.0,2.5], f=["p","q"], g=[], h=floats[], i=strings[], j=float32[2] [1, 2], k=inf})";
  const std::string text = "graph @main(%x: float32[2]) -> (%y) {\n  %y: float32[2] = Relu(%x) " + attrs + "\n}\n";
  std::unique_ptr<Graph> graph = parse_graph(text);
  EXPECT_EQ(print_graph(*graph), text);
}

TEST(GraphText, ErrorsNameTheLine) {
  EXPECT_EQ(parse_error("graph @g(%x: float32[2]) -> (%y) {\n\n %y = Relu(%z)\n}"),
            "graph text, line 3: value %z is not defined");
  EXPECT_EQ(parse_error("graph @g(%x: float32[2]) -> (%x) {\n %x = Relu(%x)\n}"),
            "graph text, line 2: value %x is defined twice");
  EXPECT_EQ(parse_error("graph @g(%x: float99[2]) -> (%x) {}"),
            "graph text, line 1: no element type is called \"float99\"");
  EXPECT_NE(parse_error("graph @g() -> (%c) {\n%c = constant float32[64] hash(0x12)\n}").find("give its data"),
            std::string::npos);
  EXPECT_NE(parse_error("graph @g() -> (%c) {\n%c = constant float32[2] [1]\n}").find("too few"), std::string::npos);
  EXPECT_NE(parse_error("graph @g() -> (%c) {\n%c = constant float32[2] [1, 2, 3]\n}").find("more elements"),
            std::string::npos);
  EXPECT_NE(parse_error("graph @g(%x: float32[2]) -> (%y) {\n%y: int64[2] = Relu(%x)\n}").find("is float32[2]"),
            std::string::npos);
}

TEST(GraphEqual, NamesAndOrderDoNotMatter) {
  auto a = parse_graph("graph @a(%x: float32[2]) -> (%s) { %p = Exp(%x) %q = Abs(%x) %s = Sub(%p, %q) }");
  auto b = parse_graph("graph @b(%u: float32[2]) -> (%v) { %w = Abs(%u) %t = Exp(%u) %v = Sub(%t, %w) }");
  EXPECT_EQ(graph_difference(*a, *b), "");
}

TEST(GraphEqual, DifferencesAreNamed) {
  auto a = parse_graph("graph @a(%x: float32[2]) -> (%s) { %p = Exp(%x) %q = Abs(%x) %s = Sub(%p, %q) }");
  for (const char* other : {
           "graph @a(%x: float32[2]) -> (%s) { %p = Exp(%x) %q = Abs(%x) %s = Sub(%q, %p) }",  // operands
           "graph @a(%x: float32[2]) -> (%s) { %p = Exp(%x) %s = Sub(%p, %p) }",               // shared
           "graph @a(%x: float32[3]) -> (%s) { %p = Exp(%x) %q = Abs(%x) %s = Sub(%p, %q) }",  // input type
           "graph @a(%x: float32[2]) -> (%s) { %p = Exp(%x) %q = Abs(%x) %s = Sub(%p, %q) %d = Neg(%x) }",  // dead
           "graph @a(%x: float32[2]) -> (%s) { %p = Exp(%x) %q = LeakyRelu(%x) %s = Sub(%p, %q) }",
       }) {
    EXPECT_NE(graph_difference(*a, *parse_graph(other)), "") << other;
  }
  auto one = parse_graph("graph @a(%x: float32[1]) -> (%s) { %c = constant float32[1] [1] %s = Sub(%x, %c) }");
  auto two = parse_graph("graph @a(%x: float32[1]) -> (%s) { %c = constant float32[1] [2] %s = Sub(%x, %c) }");
  EXPECT_NE(graph_difference(*one, *two), "");
}

TEST(GraphVerify, FindsBrokenInvariants) {
  const char* text = "graph @a(%x: float32[2]) -> (%s) { %p = Exp(%x) %s = Abs(%p) }";
  auto error = [](const Graph& graph) {
    try {
      verify(graph);
    } catch (const Error& e) {
      return e.message();
    }
    return std::string("no error");
  };
  auto graph = parse_graph(text);
  EXPECT_EQ(error(*graph), "no error");
  graph->nodes().back()->inputs[0]->users.clear();
  EXPECT_NE(error(*graph).find("use list"), std::string::npos);
  graph = parse_graph(text);
  graph->move_before(graph->nodes().back().get(), graph->nodes().front().get());
  EXPECT_NE(error(*graph).find("before it is defined"), std::string::npos);
  graph = parse_graph(text);
  graph->outputs[0]->name = "x";
  EXPECT_NE(error(*graph).find("two values are called %x"), std::string::npos);
  graph = parse_graph(text);
  graph->nodes().front()->op = "Nonsense";
  EXPECT_NE(error(*graph).find("unknown op"), std::string::npos);
}

}  // namespace
}  // namespace deepjit
