#include "op_test_util.h"

namespace deepjit {

namespace {

AttrList equation(const std::string& text) { return {{"equation", text}}; }

Tensor count_up(const Dims& dims) {
  Tensor t(DType::FLOAT32, dims);
  for (int64_t i = 0; i < t.count(); ++i) t.as<float>()[i] = static_cast<float>(i + 1);
  return t;
}

}  // namespace

TEST(Einsum, OneOperand) {
  const Tensor x = f32({2, 2}, {1, 2, 3, 4});
  expect_equal(run_op("Einsum", equation("ii->i"), {x})[0], f32({2}, {1, 4}));
  expect_equal(run_op("Einsum", equation("ii"), {x})[0], f32({}, {5}));
  expect_equal(run_op("Einsum", equation("ij->ji"), {x})[0], f32({2, 2}, {1, 3, 2, 4}));
  expect_equal(run_op("Einsum", equation("ij->"), {x})[0], f32({}, {10}));
  expect_equal(run_op("Einsum", equation("ba"), {x})[0], f32({2, 2}, {1, 3, 2, 4}));
  expect_equal(run_op("Einsum", equation("...j->..."), {x})[0], f32({2}, {3, 7}));
}

TEST(Einsum, ProductsOfTwo) {
  const Tensor a = count_up({2, 3}), b = count_up({3, 2});
  expect_equal(run_op("Einsum", equation("ij, jk -> ik"), {a, b})[0], f32({2, 2}, {22, 28, 49, 64}));
  expect_equal(run_op("Einsum", equation("ij,jk->ki"), {a, b})[0], f32({2, 2}, {22, 49, 28, 64}));
  expect_equal(run_op("Einsum", equation("ij,jk"), {a, b})[0], f32({2, 2}, {22, 28, 49, 64}));
  expect_equal(run_op("Einsum", equation("i,j->ij"), {f32({2}, {1, 2}), f32({2}, {3, 4})})[0],
               f32({2, 2}, {3, 4, 6, 8}));
  expect_equal(run_op("Einsum", equation("ij,ij->i"), {a, a})[0], f32({2}, {14, 77}));
  // The same tensor on both sides.
  expect_equal(run_op("Einsum", equation("ij,kj->ik"), {a, a})[0], f32({2, 2}, {14, 32, 32, 77}));
}

TEST(Einsum, BatchesAndEllipsisBroadcast) {
  const Tensor a = count_up({2, 1, 2}), b = count_up({2, 2, 1});
  const Tensor expected = f32({2, 1, 1}, {1 * 1 + 2 * 2, 3 * 3 + 4 * 4});
  expect_equal(run_op("Einsum", equation("bij,bjk->bik"), {a, b})[0], expected);
  expect_equal(run_op("Einsum", equation("...ij,...jk->...ik"), {a, b})[0], expected);
  expect_equal(run_op("Einsum", equation("...ij,...jk"), {a, count_up({2, 1})})[0], f32({2, 1, 1}, {5, 11}));
}

TEST(Einsum, AttentionLikeTransposedResult) {
  // b q h d, b k h d -> b h q k against plain loops.
  const Tensor q = count_up({2, 3, 2, 4}), k = count_up({2, 5, 2, 4});
  const Tensor y = run_op("Einsum", equation("bqhd,bkhd->bhqk"), {q, k})[0];
  ASSERT_EQ(y.dims(), (Dims{2, 2, 3, 5}));
  for (int64_t i = 0; i < y.count(); ++i) {
    const int64_t c = i % 5, r = i / 5 % 3, h = i / 15 % 2, n = i / 30;
    double sum = 0;
    for (int64_t d = 0; d < 4; ++d) {
      sum += double(q.as<float>()[((n * 3 + r) * 2 + h) * 4 + d]) * k.as<float>()[((n * 5 + c) * 2 + h) * 4 + d];
    }
    EXPECT_EQ(y.as<float>()[i], sum) << i;
  }
}

TEST(Einsum, ThreeOperandsIntegersAndEmptySums) {
  expect_equal(run_op("Einsum", equation("i,i,i->"), {i64({2}, {1, 2}), i64({2}, {3, 4}), i64({2}, {5, 6})})[0],
               i64({}, {63}));
  expect_equal(
      run_op("Einsum", equation("ij,jk->ik"), {Tensor(DType::FLOAT32, {1, 0}), Tensor(DType::FLOAT32, {0, 2})})[0],
      f32({1, 2}, {0, 0}));
}

TEST(Einsum, BadEquationsAreAttributeErrors) {
  const Tensor x = count_up({2, 3});
  for (const std::string text : {"ij->ik", "ij->ii", "i->i", "ijk->i", "ij,jk->ik", "i1->i", "i..j->i", ""}) {
    EXPECT_EQ(error_code_of([&] { run_op("Einsum", equation(text), {x}); }), Code::ATTRIBUTE) << text;
  }
  EXPECT_EQ(error_code_of([&] { run_op("Einsum", equation("ij,jk->ik"), {x, x}); }), Code::SHAPE_MISMATCH);
}

TEST(Einsum, ShapeRule) {
  EXPECT_EQ(infer_op("Einsum", equation("bhqd,bhkd->bhqk"),
                     {{DType::FLOAT32, {"N", "8", "S", "64"}}, {DType::FLOAT32, {"N", "8", "T", "64"}}})
                .type(),
            "float32[N,8,S,T]");
}

}  // namespace deepjit
