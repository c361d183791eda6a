// Operations of single ops, against formulas by hand.
#include "ops/work.h"

#include <gtest/gtest.h>

namespace deepjit::profile {

namespace {

TensorDesc f32(const Dims& dims) { return {DType::FLOAT32, dims}; }

double flops(const std::string& op, const std::vector<Dims>& in, const Dims& out, const Attributes& attrs = {}) {
  std::vector<TensorDesc> inputs;
  for (const Dims& dims : in) inputs.push_back(f32(dims));
  return flops_of(op, attrs, inputs, {f32(out)});
}

TEST(Work, MatrixProducts) {
  EXPECT_EQ(flops("MatMul", {{3, 4, 5}, {5, 6}}, {3, 4, 6}), 2 * 3 * 4 * 5 * 6);
  EXPECT_EQ(flops("MatMul", {{5}, {5}}, {}), 2 * 5);
  Attributes transposed;
  transposed.set("transA", int64_t{1});
  EXPECT_EQ(flops("Gemm", {{5, 4}, {5, 6}}, {4, 6}, transposed), 2 * 4 * 5 * 6);
  Attributes equation;
  equation.set("equation", std::string("bij, bjk -> bik"));
  EXPECT_EQ(flops("Einsum", {{2, 3, 4}, {2, 4, 5}}, {2, 3, 5}, equation), 2 * 2 * 3 * 4 * 5);
  Attributes trace;
  trace.set("equation", std::string("ii->"));
  EXPECT_EQ(flops("Einsum", {{4, 4}}, {}, trace), 4);
}

TEST(Work, Convolutions) {
  EXPECT_EQ(flops("Conv", {{1, 8, 10, 10}, {16, 8, 3, 3}}, {1, 16, 8, 8}), 2 * 16 * 8 * 8 * 8 * 9);
  EXPECT_EQ(flops("Conv", {{1, 8, 10, 10}, {8, 1, 3, 3}}, {1, 8, 8, 8}), 2 * 8 * 8 * 8 * 9);  // depthwise
  Attributes last;
  last.set("layout", std::string("NHWC"));
  EXPECT_EQ(flops("deepjit.Conv", {{1, 10, 10, 8}, {16, 8, 3, 3}}, {1, 8, 8, 16}, last), 2 * 16 * 8 * 8 * 8 * 9);
  EXPECT_EQ(flops("ConvTranspose", {{1, 8, 5, 5}, {8, 4, 2, 2}}, {1, 4, 10, 10}), 2 * 8 * 25 * 4 * 4);
}

TEST(Work, ElementsAndReductions) {
  EXPECT_EQ(flops("Tanh", {{3, 4}}, {3, 4}), 12);
  EXPECT_EQ(flops("Add", {{3, 4}, {4}}, {3, 4}), 12);
  EXPECT_EQ(flops("Sum", {{3, 4}, {3, 4}, {3, 4}}, {3, 4}), 24);
  EXPECT_EQ(flops("ReduceMean", {{3, 4}}, {3, 1}), 12);
  EXPECT_EQ(flops("Transpose", {{3, 4}}, {4, 3}), 0);
  EXPECT_EQ(flops("Concat", {{3, 4}, {3, 4}}, {6, 4}), 0);
}

TEST(Work, AttentionAndCells) {
  EXPECT_EQ(flops("Attention", {{1, 2, 3, 8}, {1, 2, 5, 8}, {1, 2, 5, 8}}, {1, 2, 3, 8}), 2 * (2 * 2 * 3 * 5 * 8));
  EXPECT_EQ(flops("LSTM", {{7, 2, 10}, {1, 16, 10}, {1, 16, 4}}, {7, 1, 2, 4}), 2 * 7 * 2 * (160 + 64));
}

}  // namespace

}  // namespace deepjit::profile
