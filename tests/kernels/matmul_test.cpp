#include <cmath>

#include "op_test_util.h"
#include "ops/linear/gemm.h"

namespace deepjit {

namespace {

Tensor ramp(const Dims& dims, int modulus) {
  Tensor t(DType::FLOAT32, dims);
  for (int64_t i = 0; i < t.count(); ++i) {
    t.as<float>()[i] = 0.125f * static_cast<float>((i * 7 + 3) % modulus - modulus / 2);
  }
  return t;
}

}  // namespace

TEST(Gemm, KernelMatchesTheDefinitionForEverySizeAndStride) {
  for (const auto& [m, n, k] :
       {std::array<int64_t, 3>{1, 1, 1}, {3, 5, 7}, {4, 16, 256}, {65, 33, 300}, {70, 1, 513}}) {
    for (const bool ta : {false, true}) {
      for (const bool tb : {false, true}) {
        const Tensor a = ramp({m, k}, 17), b = ramp({k, n}, 13);
        Tensor c(DType::FLOAT32, {m, n});
        gemm<float>(m, n, k, {a.as<float>(), ta ? 1 : k, ta ? m : 1}, {b.as<float>(), tb ? 1 : n, tb ? k : 1},
                    c.as<float>(), n);
        for (int64_t i = 0; i < m; ++i) {
          for (int64_t j = 0; j < n; ++j) {
            double sum = 0;
            for (int64_t p = 0; p < k; ++p) {
              sum += double(a.as<float>()[ta ? p * m + i : i * k + p]) * b.as<float>()[tb ? j * k + p : p * n + j];
            }
            ASSERT_NEAR(c.as<float>()[i * n + j], sum, 1e-3) << m << "x" << n << "x" << k << " at " << i << "," << j;
          }
        }
      }
    }
  }
}

TEST(MatMul, RankOneOperands) {
  const Tensor v = f32({2}, {1, 2}), m = f32({2, 2}, {1, 2, 3, 4});
  expect_equal(run_op("MatMul", {}, {v, v})[0], f32({}, {5}));
  expect_equal(run_op("MatMul", {}, {v, m})[0], f32({2}, {7, 10}));
  expect_equal(run_op("MatMul", {}, {m, v})[0], f32({2}, {5, 11}));
}

TEST(MatMul, BatchDimsBroadcast) {
  const Tensor a = f32({2, 1, 1, 2}, {1, 2, 3, 4});
  const Tensor b = f32({3, 2, 1}, {1, 1, 10, 10, 0, 1});
  expect_equal(run_op("MatMul", {}, {a, b})[0], f32({2, 3, 1, 1}, {3, 30, 2, 7, 70, 4}));
  // One matrix for the whole batch.
  expect_equal(run_op("MatMul", {}, {f32({2, 1, 2}, {1, 2, 3, 4}), f32({2, 2}, {1, 0, 0, 2})})[0],
               f32({2, 1, 2}, {1, 4, 3, 8}));
}

TEST(MatMul, EmptyInnerDimGivesZeros) {
  expect_equal(run_op("MatMul", {}, {Tensor(DType::FLOAT32, {2, 0}), Tensor(DType::FLOAT32, {0, 2})})[0],
               f32({2, 2}, {0, 0, 0, 0}));
  expect_equal(
      run_op("Gemm", {}, {Tensor(DType::FLOAT32, {2, 0}), Tensor(DType::FLOAT32, {0, 2}), f32({2}, {5, 6})})[0],
      f32({2, 2}, {5, 6, 5, 6}));
}

TEST(MatMul, IntegersWrapAndHalvesSumInFloat) {
  expect_equal(run_op("MatMul", {}, {i32({1, 2}, {3, -4}), i32({2, 1}, {5, 6})})[0], i32({1, 1}, {-9}));
  expect_equal(run_op("MatMul", {}, {i64({1, 1}, {int64_t{1} << 40}), i64({1, 1}, {8})})[0],
               i64({1, 1}, {int64_t{1} << 43}));
  // 4096 ones: a sum kept in float16 would stop at 2048.
  expect_equal(run_op("MatMul", {},
                      {f16({1, 4096}, std::vector<float>(4096, 1)), f16({4096, 1}, std::vector<float>(4096, 1))})[0],
               f16({1, 1}, {4096}));
}

TEST(MatMul, FusedTransposesBiasAndEpilogue) {
  const Tensor a = f32({2, 3}, {1, 4, 2, 5, 3, 6}).reshaped({3, 2});  // a^T = [[1,2,3],[4,5,6]]
  const Tensor b = f32({2, 3}, {1, 0, 1, 0, 1, 0});
  const AttrList attrs{
      {"trans_a", int64_t{1}}, {"trans_b", int64_t{1}}, {"epilogue", std::vector<std::string>{"Sub($3)", "Relu"}}};
  // a^T here is [[1,2,3],[4,5,6]]: products with rows of b are [[4,2],[10,5]].
  expect_equal(run_op("deepjit.MatMul", attrs, {a, b, f32({2}, {1, -1}), f32({2, 1}, {2, 5})})[0],
               f32({2, 2}, {3, 0, 6, 0}));
}

TEST(MatMul, ShapeRule) {
  auto type = [](const std::vector<std::string>& a, const std::vector<std::string>& b) {
    return infer_op("MatMul", {}, {{DType::FLOAT32, a}, {DType::FLOAT32, b}}).type();
  };
  EXPECT_EQ(type({"N", "S", "64"}, {"64", "32"}), "float32[N,S,32]");
  EXPECT_EQ(type({"N", "1", "S", "64"}, {"12", "64", "S"}), "float32[N,12,S,S]");
  EXPECT_EQ(type({"64"}, {"N", "64", "3"}), "float32[N,3]");
  EXPECT_EQ(error_code_of([&] { type({"2", "3"}, {"4", "5"}); }), Code::SHAPE_MISMATCH);
  EXPECT_EQ(error_code_of([&] { type({"2", "1", "3"}, {"4", "3", "5"}); }), Code::SHAPE_MISMATCH);
  EXPECT_EQ(error_code_of([&] { type({}, {"4", "5"}); }), Code::SHAPE_MISMATCH);
}

TEST(GemmOp, ScalesAndBroadcastsC) {
  const Tensor a = f32({2, 1}, {1, 2}), b = f32({1, 2}, {3, 4});
  const AttrList attrs{{"alpha", 2.0f}, {"beta", 0.5f}};
  expect_equal(run_op("Gemm", attrs, {a, b, f32({2, 1}, {10, 20})})[0], f32({2, 2}, {11, 13, 22, 26}));
  expect_equal(run_op("Gemm", {}, {a, b, f32({}, {1})})[0], f32({2, 2}, {4, 5, 7, 9}));
  expect_equal(
      run_op("Gemm", {{"transA", int64_t{1}}, {"transB", int64_t{1}}}, {f32({1, 2}, {1, 2}), f32({2, 1}, {3, 4})})[0],
      f32({2, 2}, {3, 4, 6, 8}));
  EXPECT_EQ(error_code_of([&] { run_op("Gemm", {}, {a, b, f32({3}, {1, 2, 3})}); }), Code::SHAPE_MISMATCH);
}

TEST(Det, PivotsAndBatches) {
  expect_close(run_op("Det", {}, {f32({2, 2, 2}, {0, 1, 1, 0, 1, 2, 3, 4})})[0], f32({2}, {-1, -2}));
  expect_close(run_op("Det", {}, {f32({2, 2}, {1, 2, 2, 4})})[0], f32({}, {0}));
  EXPECT_EQ(infer_op("Det", {}, {{DType::FLOAT32, {"N", "4", "4"}}}).type(), "float32[N]");
}

}  // namespace deepjit
