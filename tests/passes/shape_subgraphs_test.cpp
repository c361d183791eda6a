#include "passes/cleanup/shape_subgraphs.h"

#include "pass_test_util.h"

namespace deepjit {
namespace {

void expect_simpler(const std::string& before, const std::string& after, const Sizes& sizes = {}) {
  expect_pass("shape_subgraphs", simplify_shape_subgraphs, before, after, sizes);
}

TEST(ShapeSubgraphs, ReshapeWithTheBatchTakenFromTheInput) {
  expect_simpler(
      R"(graph @g(%x: float32[N,14,14,C]) -> (%y) {
    %s = Shape(%x) %zero = constant int64[1] [0] %n = Gather(%s, %zero)
    %rest = constant int64[2] [196, -1] %t = Concat(%n, %rest) {axis=0}
    %y = Reshape(%x, %t)
  })",
      R"(graph @g(%x: float32[N,14,14,C]) -> (%y) { %t = constant int64[3] [0, 196, -1] %y = Reshape(%x, %t) })");
  // The batch in another place is what is left.
  expect_simpler(R"(graph @g(%x: float32[N,6]) -> (%y) {
    %s = Shape(%x) {end=1} %two = constant int64[2] [2, 3] %t = Concat(%two, %s) {axis=0}
    %y = Reshape(%x, %t)
  })",
                 R"(graph @g(%x: float32[N,6]) -> (%y) { %t = constant int64[3] [2, 3, -1] %y = Reshape(%x, %t) })");
}

// Whether %m is empty or not: what is left is right for both.
TEST(ShapeSubgraphs, ReshapeToTheSizeOfAnotherTensor) {
  const std::string before = R"(graph @g(%x: float32[3,4], %m: float32[M]) -> (%y) {
    %s = Shape(%m) %four = constant int64[1] [4] %t = Concat(%s, %four) {axis=0}
    %y = Reshape(%x, %t)
  })";
  const std::string after = R"(graph @g(%x: float32[3,4], %m: float32[M]) -> (%y) {
    %t = constant int64[2] [-1, 4] %y = Reshape(%x, %t)
  })";
  expect_simpler(before, after, {{"M", 0}});
  expect_simpler(before, after, {{"M", 3}});
}

TEST(ShapeSubgraphs, TwoUnknownDimsStay) {
  expect_unchanged("shape_subgraphs", simplify_shape_subgraphs, R"(graph @g(%x: float32[N,H,6]) -> (%y) {
    %s = Shape(%x) %h = constant int64[3] [1, 0, 2] %t = Gather(%s, %h)
    %y = Reshape(%x, %t)
  })");
}

TEST(ShapeSubgraphs, ViewsOfViews) {
  expect_simpler(R"(graph @g(%x: float32[N,4,6]) -> (%y) {
    %a = constant int64[2] [0, -1] %p = Reshape(%x, %a)
    %b = constant int64[1] [1] %y = Unsqueeze(%p, %b)
  })",
                 R"(graph @g(%x: float32[N,4,6]) -> (%y) { %t = constant int64[3] [0, 1, 24] %y = Reshape(%x, %t) })");
  // There and back again.
  expect_simpler(R"(graph @g(%x: float32[N,4,6]) -> (%y) {
    %a = constant int64[2] [0, -1] %p = Reshape(%x, %a)
    %b = constant int64[3] [-1, 4, 6] %q = Reshape(%p, %b) %y = Relu(%q)
  })",
                 R"(graph @g(%x: float32[N,4,6]) -> (%y) { %y = Relu(%x) })");
}

TEST(ShapeSubgraphs, SliceToTheEndAndExpandToItself) {
  expect_simpler(R"(graph @g(%x: float32[N,H]) -> (%y) {
    %e = Shape(%x) {start=1} %s = constant int64[1] [1] %a = constant int64[1] [1]
    %y = Slice(%x, %s, %e, %a)
  })",
                 R"(graph @g(%x: float32[N,H]) -> (%y) {
    %e = constant int64[1] [9223372036854775807] %s = constant int64[1] [1]
    %y = Slice(%x, %s, %e, %s)
  })");
  expect_simpler(R"(graph @g(%x: float32[N,1]) -> (%y) {
    %n = Shape(%x) {end=1} %c = constant int64[1] [4] %t = Concat(%n, %c) {axis=0}
    %y = Expand(%x, %t)
  })",
                 R"(graph @g(%x: float32[N,1]) -> (%y) { %t = constant int64[2] [1, 4] %y = Expand(%x, %t) })");
  // A dim of 1 that grows to N must stay.
  expect_unchanged("shape_subgraphs", simplify_shape_subgraphs, R"(graph @g(%x: float32[N,1], %z: float32[H]) -> (%y) {
    %n = Shape(%x) {end=1} %h = Shape(%z) %t = Concat(%n, %h) {axis=0}
    %y = Expand(%x, %t)
  })");
}

TEST(ShapeSubgraphs, ReductionKeepsItsDims) {
  expect_simpler(R"(graph @g(%x: float32[N,4]) -> (%y) {
    %a = constant int64[1] [1] %m = ReduceMean(%x, %a) {keepdims=0} %u = Unsqueeze(%m, %a) %y = Sub(%x, %u)
  })",
                 R"(graph @g(%x: float32[N,4]) -> (%y) {
    %a = constant int64[1] [1] %u = ReduceMean(%x, %a) {keepdims=1} %y = Sub(%x, %u)
  })");
  expect_unchanged("shape_subgraphs", simplify_shape_subgraphs, R"(graph @g(%x: float32[N,4]) -> (%y) {
    %a = constant int64[1] [1] %b = constant int64[1] [0]
    %m = ReduceMean(%x, %a) {keepdims=0} %y = Unsqueeze(%m, %b)
  })");
}

}  // namespace
}  // namespace deepjit
