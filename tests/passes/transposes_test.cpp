#include "passes/layout/transposes.h"

#include "graph/infer.h"
#include "pass_test_util.h"

namespace deepjit {
namespace {

void expect_turned(const std::string& before, const std::string& after) {
  expect_pass("transposes", reduce_transposes, before, after);
}
void expect_kept(const std::string& text) { expect_unchanged("transposes", reduce_transposes, text); }

// `inside` between a Transpose to NHWC of %x and one back must become `after` alone.
void expect_cancelled(const std::string& inside, const std::string& after) {
  const std::string head = "graph @g(%x: float32[N,C,H,4], %r: float32[N,C,H,4]) -> (%y) {";
  expect_turned(head + "%t = Transpose(%x) {perm=[0,2,3,1]}" + inside + "%y = Transpose(%v) {perm=[0,3,1,2]} }",
                head + after + "}");
}

TEST(Transposes, NeighboursMerge) {
  expect_turned(
      "graph @g(%x: float32[2,3,4]) -> (%y) { %a = Transpose(%x) {perm=[1,2,0]} %y = Transpose(%a) {perm=[0,2,1]} }",
      "graph @g(%x: float32[2,3,4]) -> (%y) { %y = Transpose(%x) {perm=[1,0,2]} }");
  expect_turned("graph @g(%x: float32[2,3,4]) -> (%y) { %a = Transpose(%x) %b = Transpose(%a) %y = Neg(%b) }",
                "graph @g(%x: float32[2,3,4]) -> (%y) { %y = Neg(%x) }");
}

TEST(Transposes, OnlySizeOneMoves) {
  expect_turned("graph @g(%x: float32[N,3,1,1]) -> (%y) { %y = Transpose(%x) {perm=[0,2,3,1]} }",
                "graph @g(%x: float32[N,3,1,1]) -> (%y) { %t = constant int64[4] [0,1,1,3] %y = Reshape(%x, %t) }");
}

TEST(Transposes, AroundAReshapeThatJoins) {
  // The patches of a vision transformer: nothing moves.
  expect_turned(R"(graph @g(%x: float32[N,4,5,3]) -> (%y) {
    %t = constant int64[3] [0,3,-1]
    %a = Transpose(%x) {perm=[0,3,1,2]}
    %b = Reshape(%a, %t)
    %y = Transpose(%b) {perm=[0,2,1]}
  })",
                R"(graph @g(%x: float32[N,4,5,3]) -> (%y) {
    %t = constant int64[3] [0,20,3]
    %y = Reshape(%x, %t)
  })");
  // One Transpose is left.
  expect_turned(R"(graph @g(%x: float32[N,4,5,3]) -> (%y) {
    %t = constant int64[3] [0,3,-1]
    %a = Transpose(%x) {perm=[0,3,1,2]}
    %b = Reshape(%a, %t)
    %y = Transpose(%b) {perm=[2,0,1]}
  })",
                R"(graph @g(%x: float32[N,4,5,3]) -> (%y) {
    %t = constant int64[3] [0,20,3]
    %b = Reshape(%x, %t)
    %y = Transpose(%b) {perm=[1,0,2]}
  })");
  // The dims that the Reshape joins do not lie together, or not in this order, before the first Transpose.
  for (const char* perm : {"[0,2,3,1]", "[0,1,3,2]"}) {
    expect_kept(R"(graph @g(%x: float32[N,4,5,3]) -> (%y) {
      %t = constant int64[3] [0,0,-1]
      %a = Transpose(%x) {perm=)" +
                std::string(perm) + R"(}
      %b = Reshape(%a, %t)
      %y = Transpose(%b) {perm=[0,2,1]}
    })");
  }
}

// What is turned and what reads it through a Transpose belong to one region: the shapes must still add up.
TEST(Transposes, ThatReadsItsOwnRegion) {
  const auto graph = parse_graph(R"(graph @g(%x: float32[2,1,1,1]) -> (%y) {
    %a = Relu(%x)
    %t = Transpose(%a) {perm=[1,2,3,0]}
    %m = Add(%t, %x)
    %y = Transpose(%m) {perm=[2,1,3,0]}
  })");
  const std::vector<Dim> dims = graph->outputs[0]->type.shape.dims();
  reduce_transposes(*graph);
  infer_types(*graph);
  EXPECT_EQ(graph->outputs[0]->type.shape.dims(), dims);
}

TEST(Transposes, ThroughPointwise) {
  expect_cancelled("%v = Relu(%t)", "%y = Relu(%x)");
  expect_cancelled("%c = constant float32[1,1,1,3] [1,2,3] %v = Mul(%t, %c)",
                   "%c = constant float32[1,3,1,1] [1,2,3] %y = Mul(%x, %c)");
  expect_cancelled("%c = constant float32[3] [1,2,3] %v = Add(%c, %t)",
                   "%c = constant float32[1,3,1,1] [1,2,3] %y = Add(%c, %x)");
  expect_cancelled("%lo = constant float32[] [0] %v = Clip(%t, %lo)",
                   "%lo = constant float32[] [0] %y = Clip(%x, %lo)");
  // Two readers of one Transpose that meet again.
  expect_cancelled("%s = Sigmoid(%t) %v = Mul(%t, %s)", "%s = Sigmoid(%x) %y = Mul(%x, %s)");
  // A residual that comes by a Transpose of its own.
  expect_cancelled("%u = Transpose(%r) {perm=[0,2,3,1]} %v = Add(%t, %u)", "%y = Add(%x, %r)");
}

TEST(Transposes, ThroughOpsWithAxes) {
  expect_cancelled("%v = Concat(%t, %t) {axis=3}", "%y = Concat(%x, %x) {axis=1}");
  expect_cancelled("%a, %b = Split(%t) {axis=2, num_outputs=2} %v = Sub(%a, %b)",
                   "%a, %b = Split(%x) {axis=3, num_outputs=2} %y = Sub(%a, %b)");
  expect_cancelled("%v = Softmax(%t) {axis=-1}", "%y = Softmax(%x) {axis=1}");
  expect_cancelled("%p = constant int64[8] [0,1,2,0,0,3,4,0] %v = Pad(%t, %p)",
                   "%p = constant int64[8] [0,0,1,2,0,0,3,4] %y = Pad(%x, %p)");
  expect_cancelled("%p = constant int64[2] [1,2] %a = constant int64[1] [-1] %v = Pad(%t, %p, _, %a)",
                   "%p = constant int64[8] [0,1,0,0,0,2,0,0] %y = Pad(%x, %p, _, _)");
  expect_cancelled(
      "%s = constant int64[1] [1] %e = constant int64[1] [3] %a = constant int64[1] [3] %v = Slice(%t, %s, %e, %a)",
      "%s = constant int64[1] [1] %e = constant int64[1] [3] %y = Slice(%x, %s, %e, %s)");
  expect_cancelled("%a = constant int64[2] [1,2] %m = ReduceMean(%t, %a) %v = Sub(%t, %m)",
                   "%a = constant int64[2] [2,3] %m = ReduceMean(%x, %a) %y = Sub(%x, %m)");
}

TEST(Transposes, AReductionThatDropsTheAxes) {
  expect_turned(R"(graph @g(%x: float32[N,C,H,4]) -> (%y) {
    %t = Transpose(%x) {perm=[0,2,3,1]} %e = Exp(%t) %a = constant int64[2] [1,2]
    %y = ReduceMean(%e, %a) {keepdims=0}
  })",
                R"(graph @g(%x: float32[N,C,H,4]) -> (%y) {
    %e = Exp(%x) %a = constant int64[2] [2,3]
    %y = ReduceMean(%e, %a) {keepdims=0}
  })");
}

TEST(Transposes, SquareShapesAreToldApart) {
  // Equal sizes everywhere: only the axes say what is meant.
  expect_turned(R"(graph @g(%x: float32[3,3,3]) -> (%y, %z) {
    %t = Transpose(%x) {perm=[1,2,0]} %e = Exp(%t) %y = Transpose(%e) {perm=[2,0,1]} %z = Transpose(%e) {perm=[1,2,0]}
  })",
                R"(graph @g(%x: float32[3,3,3]) -> (%y, %z) {
    %y = Exp(%x) %z = Transpose(%y) {perm=[2,0,1]}
  })");
}

TEST(Transposes, WhatWouldNotPay) {
  // The transposed value is read elsewhere: turning would only move the Transpose.
  expect_kept("graph @g(%x: float32[N,C,H]) -> (%y) { %t = Transpose(%x) {perm=[0,2,1]} %y = Relu(%t) }");
  expect_kept(
      "graph @g(%x: float32[N,C,H], %r: float32[N,H,C]) -> (%y) { %t = Transpose(%x) {perm=[0,2,1]} %y = Add(%t, %r) "
      "}");
  expect_kept(R"(graph @g(%x: float32[N,C,4]) -> (%y) {
    %t = Transpose(%x) {perm=[0,2,1]} %w = constant float32[3,5] random(1) %y = MatMul(%t, %w)
  })");
}

TEST(Transposes, AnOutputKeepsItsOrderAndName) {
  const std::string text = R"(graph @g(%x: float32[N,C,H,4]) -> (%e, %y) {
    %t = Transpose(%x) {perm=[0,2,3,1]} %e = Exp(%t) %y = Transpose(%e) {perm=[0,3,1,2]}
  })";
  std::unique_ptr<Graph> graph = run_on("transposes", reduce_transposes, text);
  EXPECT_EQ(graph->nodes().size(), 2u) << print_graph(*graph);
  EXPECT_EQ(graph->outputs[0]->name, "e");
  expect_same_results(*parse_graph(text), *graph);
}

TEST(Transposes, UnknownRankIsLeftAlone) {
  expect_kept("graph @g(%x: float32[*]) -> (%y) { %t = Transpose(%x) {perm=[1,0]} %y = Relu(%t) }");
}

}  // namespace
}  // namespace deepjit
