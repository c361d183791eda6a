#include "passes/cleanup/fold_constants.h"

#include "pass_test_util.h"

namespace deepjit {
namespace {

void expect_folds(const std::string& before, const std::string& after) {
  expect_pass("fold_constants", fold_constants, before, after);
}

TEST(FoldConstants, ChainsOfConstants) {
  expect_folds(R"(graph @g(%x: float32[2]) -> (%y) {
    %a = constant float32[2] [1, 2]
    %b = constant float32[2] [3, 4]
    %c = Add(%a, %b)
    %d = Neg(%c)
    %y = Mul(%x, %d)
  })",
               R"(graph @g(%x: float32[2]) -> (%y) {
    %d = constant float32[2] [-4, -6]
    %y = Mul(%x, %d)
  })");
}

TEST(FoldConstants, AGraphOutputKeepsItsName) {
  expect_folds(R"(graph @g(%x: float32[2]) -> (%x, %y) {
    %a = constant float32[2] [1, 2]
    %y = Neg(%a)
  })",
               R"(graph @g(%x: float32[2]) -> (%x, %y) { %y = constant float32[2] [-1, -2] })");
}

TEST(FoldConstants, KnownShapeArithmetic) {
  expect_folds(R"(graph @g(%x: float32[N,3,4]) -> (%y) {
    %s = Shape(%x) {start=1}
    %y = Identity(%s)
  })",
               R"(graph @g(%x: float32[N,3,4]) -> (%y) { %y = constant int64[2] [3, 4] })");
}

TEST(FoldConstants, UnknownShapesAndDefaultsStay) {
  expect_unchanged("fold_constants", fold_constants, "graph @g(%x: float32[N,3]) -> (%y) { %y = Shape(%x) }");
  // An initializer that is also an input follows what is fed.
  expect_unchanged("fold_constants", fold_constants, "graph @g(%x: float32[2] = [1, 2]) -> (%y) { %y = Neg(%x) }");
}

TEST(FoldConstants, IfWithKnownCondition) {
  expect_folds(R"(graph @g(%x: float32[2]) -> (%y) {
    %c = constant bool[1] [true]
    %r = If(%c) then {
      %n = Neg(%x)
      -> (%n)
    } else {
      %a = Abs(%x)
      -> (%a)
    }
    %y = Exp(%r)
  })",
               R"(graph @g(%x: float32[2]) -> (%y) { %n = Neg(%x) %y = Exp(%n) })");
}

TEST(FoldConstants, IfThatReturnsAnOuterValueAsOutput) {
  expect_folds(R"(graph @g(%x: float32[2]) -> (%y) {
    %c = constant bool[] [false]
    %y = If(%c) then {
      %n = Neg(%x)
      -> (%n)
    } else {
      -> (%x)
    }
  })",
               R"(graph @g(%x: float32[2]) -> (%y) { %y = Identity(%x) })");
}

TEST(FoldConstants, InsideBodies) {
  expect_folds(R"(graph @g(%x: float32[2], %c: bool[]) -> (%y) {
    %a = constant float32[2] [1, 2]
    %y = If(%c) then {
      %n = Neg(%a)
      -> (%n)
    } else {
      -> (%x)
    }
  })",
               R"(graph @g(%x: float32[2], %c: bool[]) -> (%y) {
    %n = constant float32[2] [-1, -2]
    %y = If(%c) then { -> (%n) } else { -> (%x) }
  })");
}

TEST(FoldConstants, LargeGrowthStays) {
  expect_unchanged("fold_constants", fold_constants, R"(graph @g(%x: float32[2]) -> (%y) {
    %a = constant float32[1] [1]
    %s = constant int64[1] [1000000]
    %y = Expand(%a, %s)
  })");
}

TEST(FoldConstants, AFailingEvaluationStays) {
  expect_unchanged("fold_constants", fold_constants, R"(graph @g(%x: float32[2]) -> (%y) {
    %a = constant float32[3] [1, 2, 3]
    %i = constant int64[1] [7]
    %g = Gather(%a, %i)
    %y = Add(%g, %x)
  })");
}

TEST(FoldConstants, StopsAtTheBudgetOfBytes) {
  const auto graph = parse_graph(R"(graph @g() -> (%a, %b, %c) {
    %w = constant float32[4] [1, 2, 3, 4]
    %a = Neg(%w)
    %b = Abs(%w)
    %c = Exp(%w)
  })");
  FoldBudget budget;
  budget.bytes = 16;
  budget.started = true;
  EXPECT_TRUE(fold_constants_within(*graph, budget));
  EXPECT_EQ(graph->nodes().size(), 2u) << "the constant stays for the others, so each result takes more room";
  EXPECT_EQ(budget.bytes, 0);
}

TEST(FoldConstants, AResultInPlaceOfItsOnlyInputIsFree) {
  const auto graph = parse_graph(R"(graph @g() -> (%c) {
    %w = constant float32[4] [1, 2, 3, 4]
    %a = Neg(%w)
    %b = Abs(%a)
    %c = Exp(%b)
  })");
  FoldBudget budget;
  budget.bytes = 0;
  budget.started = true;
  EXPECT_TRUE(fold_constants_within(*graph, budget));
  EXPECT_TRUE(graph->nodes().empty());
}

TEST(FoldConstants, StopsAtTheBudgetOfWork) {
  const auto graph = parse_graph(R"(graph @g() -> (%y) {
    %a = constant float32[2,2] [1, 2, 3, 4]
    %b = MatMul(%a, %a)
    %y = MatMul(%b, %a)
  })");
  FoldBudget budget;
  budget.work = 15;  // a product of 2x2 takes eight multiply-adds, and reading and writing 12 elements counts 12
  EXPECT_TRUE(fold_constants_within(*graph, budget));
  EXPECT_EQ(graph->nodes().size(), 1u);
}

}  // namespace
}  // namespace deepjit
