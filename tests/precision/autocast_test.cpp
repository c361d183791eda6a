#include "autocast_test_util.h"
#include "passes/pipeline.h"

namespace deepjit {
namespace {

TEST(Autocast, CastsStandAtTheEdges) {
  expect_cast(R"(graph @g(%x: float32[N,2,4,4], %r: float32[N,3,4,4]) -> (%y) {
    %w = constant float32[3,2,1,1] [1, 0.5, -2, 0.25, 4, -1]
    %b = constant float32[3] [1, 2, 3]
    %c = Conv(%x, %w, %b)
    %a = Relu(%c)
    %y = Add(%a, %r)
  })",
              R"(graph @g(%x: float32[N,2,4,4], %r: float32[N,3,4,4]) -> (%y) {
    %w = constant float16[3,2,1,1] [1, 0.5, -2, 0.25, 4, -1]
    %b = constant float16[3] [1, 2, 3]
    %x16 = Cast(%x) {to=10}
    %r16 = Cast(%r) {to=10}
    %c = Conv(%x16, %w, %b)
    %a = Relu(%c)
    %s = Add(%a, %r16)
    %y = Cast(%s) {to=1}
  })");
}

TEST(Autocast, BFloat16) {
  AutocastOptions options;
  options.type = DType::BFLOAT16;
  const auto graph = run_on(
      "autocast", [&](Graph& g) { return autocast(g, options); },
      "graph @g(%x: float32[N,4], %w: float32[4,3]) -> (%y) { %y = MatMul(%x, %w) }");
  const auto after = parse_graph(R"(graph @g(%x: float32[N,4], %w: float32[4,3]) -> (%y) {
    %a = Cast(%x) {to=16}
    %b = Cast(%w) {to=16}
    %m = MatMul(%a, %b)
    %y = Cast(%m) {to=1}
  })");
  EXPECT_EQ(graph_difference(*graph, *after), "") << print_graph(*graph);
}

TEST(Autocast, AnIslandAndWhatCarriesItOn) {
  expect_cast(R"(graph @g(%x: float32[N,2,4,4]) -> (%y) {
    %w = constant float32[2,2,1,1] [0.5, 0.5, -0.25, 0.25]
    %k = constant float32[1,2,1,1] [0.5, 2]
    %c = Conv(%x, %w)
    %e = Exp(%c)
    %m = Mul(%e, %k)
    %y = Conv(%m, %w)
  })",
              R"(graph @g(%x: float32[N,2,4,4]) -> (%y) {
    %w = constant float16[2,2,1,1] [0.5, 0.5, -0.25, 0.25]
    %k = constant float32[1,2,1,1] [0.5, 2]
    %x16 = Cast(%x) {to=10}
    %c = Conv(%x16, %w)
    %c32 = Cast(%c) {to=1}
    %e = Exp(%c32)
    %m = Mul(%e, %k)
    %m16 = Cast(%m) {to=10}
    %d = Conv(%m16, %w)
    %y = Cast(%d) {to=1}
  })");
}

// One sum of 16-bit and float32 values is float32; the residual stream behind it is not.
TEST(Autocast, AStreamComesBackFromAnIsland) {
  const auto graph = run_on("autocast", to_half(), R"(graph @g(%x: float32[N,4]) -> (%y) {
    %w = constant float32[4,4] fill(0.25)
    %s = constant float32[4] fill(1)
    %m = MatMul(%x, %w)
    %e = Sin(%x)
    %a = Add(%m, %e)
    %n = LayerNormalization(%a, %s)
    %p = MatMul(%n, %w)
    %b = Add(%a, %p)
    %q = Relu(%b)
    %y = MatMul(%q, %w)
  })");
  EXPECT_EQ(type_of(*graph, "a"), "float32");
  for (const char* name : {"m", "n", "p", "b", "q"}) EXPECT_EQ(type_of(*graph, name), "float16") << name;
}

TEST(Autocast, WhatIsWrittenOutAsSquaresAndQuotients) {
  const auto graph = run_on("autocast", to_half(), R"(graph @g(%x: float32[N,8], %w: float32[8,8]) -> (%y) {
    %axes = constant int64[1] [-1]
    %eps = constant float32[] [1e-6]
    %m = MatMul(%x, %w)
    %sq = Mul(%m, %m)
    %mean = ReduceMean(%sq, %axes)
    %v = Add(%mean, %eps)
    %d = Sqrt(%v)
    %n = Div(%m, %d)
    %y = MatMul(%n, %w)
  })");
  for (const char* name : {"sq", "mean", "v", "d", "n"}) EXPECT_EQ(type_of(*graph, name), "float32") << name;
  EXPECT_EQ(type_of(*graph, "m"), "float16");
}

TEST(Autocast, Reductions) {
  const std::string text = R"(graph @g(%x: float32[N,COUNT], %w: float32[COUNT,COUNT]) -> (%y) {
    %axes = constant int64[1] [-1]
    %m = MatMul(%x, %w)
    %s = OP(%m, %axes)
    %t = Tanh(%s)
    %y = Mul(%m, %t)
  })";
  const auto type = [&](const std::string& op, const std::string& count) {
    std::string one = text;
    for (size_t at; (at = one.find("COUNT")) != std::string::npos;) one.replace(at, 5, count);
    one.replace(one.find("OP"), 2, op);
    return type_of(*run_on("autocast", to_half(), one), "s");
  };
  EXPECT_EQ(type("ReduceMean", "512"), "float16");
  EXPECT_EQ(type("ReduceMax", "512"), "float16");
  EXPECT_EQ(type("ReduceSum", "512"), "float32");
  EXPECT_EQ(type("ReduceSum", "8"), "float16");
  EXPECT_EQ(type("ReduceL2", "8"), "float32");
}

// -3.4e38 would become -infinity, and a row that is masked altogether NaN.
// What is added to such a mask is not put into 16 bits behind a pointwise op either; a norm bounds it.
TEST(Autocast, TypedModelsStay) {
  expect_kept(R"(graph @g(%x: float16[N,4]) -> (%y) {
    %w = constant float16[4,4] random(1)
    %m = MatMul(%x, %w)
    %e = Exp(%m)
    %y = MatMul(%e, %w)
  })");
  // The typed part of a mixed model stays, what stands around it does not.
  expect_cast(R"(graph @g(%x: float32[N,2]) -> (%y) {
    %w = constant float32[2,2] [1, 0.5, -1, 2]
    %v = constant bfloat16[2,2] [0.25, 1, 0.5, -1]
    %m = MatMul(%x, %w)
    %c = Cast(%m) {to=16}
    %n = MatMul(%c, %v)
    %d = Cast(%n) {to=1}
    %y = MatMul(%d, %w)
  })",
              R"(graph @g(%x: float32[N,2]) -> (%y) {
    %w = constant float16[2,2] [1, 0.5, -1, 2]
    %v = constant bfloat16[2,2] [0.25, 1, 0.5, -1]
    %x16 = Cast(%x) {to=10}
    %m = MatMul(%x16, %w)
    %m32 = Cast(%m) {to=1}
    %c = Cast(%m32) {to=16}
    %n = MatMul(%c, %v)
    %d = Cast(%n) {to=1}
    %d16 = Cast(%d) {to=10}
    %z = MatMul(%d16, %w)
    %y = Cast(%z) {to=1}
  })");
}

TEST(Autocast, IndexArithmeticStays) {
  const auto graph = run_on("autocast", to_half(), R"(graph @g(%x: float32[N,8,6], %w: float32[6,6]) -> (%y) {
    %half = constant float32[] [0.5]
    %shape = Shape(%x)
    %f = Cast(%shape) {to=1}
    %h = Mul(%f, %half)
    %r = Floor(%h)
    %i = Cast(%r) {to=7}
    %m = MatMul(%x, %w)
    %g = Gather(%m, %i) {axis=1}
    %y = Relu(%g)
  })");
  EXPECT_EQ(type_of(*graph, "f"), "float32");
  EXPECT_EQ(type_of(*graph, "h"), "float32");
  EXPECT_EQ(type_of(*graph, "g"), "float16");
  EXPECT_EQ(count_casts(*graph), 5);  // two of the model, two inputs, one output
}

TEST(Autocast, MovesFollowTheirReaders) {
  const auto graph = run_on("autocast", to_half(), R"(graph @g(%x: float32[N,4,6], %w: float32[4,4]) -> (%y, %z) {
    %a = Transpose(%x) {perm=[0,2,1]}
    %y = MatMul(%a, %w)
    %b = Transpose(%x) {perm=[1,0,2]}
    %z = Exp(%b)
  })");
  EXPECT_EQ(type_of(*graph, "a"), "float16");
  EXPECT_EQ(type_of(*graph, "b"), "float32");
}

TEST(Autocast, AResizeKeepsItsScales) {
  const auto graph = run_on("autocast", to_half(), R"(graph @g(%x: float32[N,2,4,4]) -> (%y) {
    %w = constant float32[2,2,1,1] fill(0.5)
    %s = constant float32[4] [1, 1, 2, 2]
    %c = Conv(%x, %w)
    %r = Resize(%c, _, %s) {mode="linear"}
    %y = Conv(%r, %w)
  })");
  EXPECT_EQ(type_of(*graph, "s"), "float32");
  EXPECT_EQ(type_of(*graph, "r"), "float16");
}

TEST(Autocast, OutputsKeepNamesAndTypes) {
  expect_cast(R"(graph @g(%x: float32[N,2]) -> (%y, %z) {
    %w = constant float32[2,2] [1, 0.5, -1, 2]
    %y = MatMul(%x, %w)
    %z = MatMul(%y, %w)
  })",
              R"(graph @g(%x: float32[N,2]) -> (%y, %z) {
    %w = constant float16[2,2] [1, 0.5, -1, 2]
    %x16 = Cast(%x) {to=10}
    %m = MatMul(%x16, %w)
    %y = Cast(%m) {to=1}
    %n = MatMul(%m, %w)
    %z = Cast(%n) {to=1}
  })");
}

TEST(Autocast, BodiesReadFloat32) {
  const std::string text = R"(graph @g(%x: float32[N,4], %w: float32[4,4], %c: bool[]) -> (%y) {
    %m = MatMul(%x, %w)
    %i = If(%c) then { %t = Exp(%m) -> (%t) } else { %p = MatMul(%m, %w) %e = Relu(%p) -> (%e) }
    %y = Add(%i, %m)
  })";
  const auto graph = run_on("autocast", to_half(), text);
  EXPECT_EQ(type_of(*graph, "m"), "float16");
  EXPECT_EQ(type_of(*graph, "t"), "float32");
  EXPECT_EQ(type_of(*graph, "p"), "float16");
  expect_same_results(*parse_graph(text), *graph, 2e-2);
}

TEST(Autocast, EveryNodeHasOneReason) {
  PrecisionNotes notes;
  run_on("autocast", to_half(&notes), R"(graph @g(%x: float32[N,4], %w: float32[4,4]) -> (%y) {
    %m = MatMul(%x, %w) @one
    %e = Exp(%m) @two
    %r = Relu(%e) @three
    %y = MatMul(%r, %w) @four
  })");
  const PrecisionNotes expected = {{"fp16: product", {"one", "four"}},
                                   {"fp32: its results may leave 16 bits' range", {"two"}},
                                   {"fp32: carries on float32 values", {"three"}}};
  EXPECT_EQ(notes, expected);
}

TEST(Autocast, InAPipelineOnlyTheEdgesKeepCasts) {
  const std::string text = R"(graph @g(%x: float32[N,3,H,W]) -> (%y) {
    %w1 = constant float32[8,3,3,3] random(1, -0.2, 0.2)
    %s = constant float32[8] random(2, 0.5, 1)
    %b = constant float32[8] random(3)
    %w2 = constant float32[8,8,1,1] random(4, -0.3, 0.3)
    %c1 = Conv(%x, %w1) {pads=[1,1,1,1]}
    %n1 = BatchNormalization(%c1, %s, %b, %b, %s)
    %a1 = Relu(%n1)
    %g = GlobalAveragePool(%a1)
    %e1 = Conv(%g, %w2)
    %e2 = HardSigmoid(%e1)
    %se = Mul(%a1, %e2)
    %c2 = Conv(%se, %w2)
    %d = Add(%c2, %a1)
    %y = MaxPool(%d) {kernel_shape=[2,2], strides=[2,2]}
  })";
  for (int level = 0; level <= 3; ++level) {
    const auto graph = parse_graph(text);
    PassOptions options;
    options.level = level;
    options.verify = true;
    run_pipeline(*graph, options, {{"autocast", "", to_half()}});
    EXPECT_EQ(count_casts(*graph), 2) << print_graph(*graph);
    int others = 0;
    for (const auto& node : graph->nodes()) others += node->op == "Transpose" || node->op == "BatchNormalization";
    EXPECT_EQ(others, level == 3 ? 2 : level == 2 ? 0 : 1) << print_graph(*graph);
    expect_same_results(*parse_graph(text), *graph, 2e-2, {{"H", 8}, {"W", 6}});
  }
}

}  // namespace
}  // namespace deepjit
