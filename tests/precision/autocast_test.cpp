#include "precision/autocast.h"

#include "../passes/pass_test_util.h"
#include "passes/pipeline.h"
#include "precision/narrow.h"
#include "precision/precision.h"

namespace deepjit {
namespace {

constexpr double kHalf = 5e-3;  // of values of order 1 that were rounded a few times

std::function<bool(Graph&)> to_half(PrecisionNotes* notes = nullptr, std::map<std::string, double> seen = {}) {
  AutocastOptions options;
  options.seen = std::move(seen);
  return [options, notes](Graph& graph) { return autocast(graph, options, notes); };
}

// The graph becomes `after`; results agree within what 16 bits can do.
void expect_cast(const std::string& before, const std::string& after, std::map<std::string, double> seen = {}) {
  SCOPED_TRACE(before);
  bool changed = false;
  const auto actual = run_on("autocast", to_half(nullptr, std::move(seen)), before, &changed);
  EXPECT_TRUE(changed);
  EXPECT_EQ(graph_difference(*actual, *parse_graph(after)), "") << print_graph(*actual);
  const auto original = parse_graph(before);
  expect_same_types(*original, *actual);
  expect_same_results(*original, *actual, kHalf);
}

void expect_kept(const std::string& text) { expect_unchanged("autocast", to_half(), text); }

std::string type_of(const Graph& graph, const std::string& name) {
  std::string type = "none";
  for_each_graph(const_cast<Graph&>(graph), [&](Graph& g) {
    g.for_each_value([&](const Value* v) {
      if (v->name == name) type = std::string(dtype_name(v->type.dtype));
    });
  });
  return type;
}

int count_casts(const Graph& graph) {
  int casts = 0;
  for_each_graph(const_cast<Graph&>(graph), [&](Graph& g) {
    for (const auto& node : g.nodes()) casts += node->op == "Cast";
  });
  return casts;
}

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

// -3.4e38 would become -infinity, and a row that is masked altogether NaN.
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

// What is added to such a mask is not put into 16 bits behind a pointwise op either; a norm bounds it.
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

TEST(Narrow, WhatIsLost) {
  const auto of = [](std::vector<float> x, DType type = DType::FLOAT16) {
    return narrow(Tensor::from<float>(DType::FLOAT32, Dims{static_cast<int64_t>(x.size())}, std::span<const float>(x)),
                  type);
  };
  EXPECT_EQ(what_is_lost(of({1, 0.1f, -65504}), DType::FLOAT16), "");
  EXPECT_EQ(what_is_lost(of({1, 65510}), DType::FLOAT16), "a constant of 6.6e+04 does not fit float16");
  EXPECT_EQ(what_is_lost(of({1e-9f, -2e-9f}), DType::FLOAT16), "a constant of at most 2e-09 loses 1e+02% in float16");
  EXPECT_EQ(what_is_lost(of({1e-9f, -2e-9f, 1}), DType::FLOAT16), "");
  EXPECT_EQ(what_is_lost(of({1e-9f, 1e30f}, DType::BFLOAT16), DType::BFLOAT16), "");
  EXPECT_TRUE(of({3.4028234e38f}, DType::BFLOAT16).overflows);
  EXPECT_FALSE(of({INFINITY, NAN}).overflows);
  EXPECT_EQ(of({0, 0}).relative_loss, 0);
}

TEST(Precision, Names) {
  for (const char* name : {"fp32", "tf32", "fp16", "bf16"}) EXPECT_EQ(precision_name(parse_precision(name)), name);
  EXPECT_THROW(parse_precision("fp12"), Error);
  EXPECT_EQ(narrow_type(Precision::TF32), std::nullopt);
}

}  // namespace
}  // namespace deepjit
