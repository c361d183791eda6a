// Generated CPU kernels: loops, tails, reductions, row buffers, threads.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "kernel_run_util.h"

namespace deepjit {
namespace {

Tensor counting(const Dims& dims) {
  Tensor t(DType::FLOAT32, dims);
  for (int64_t i = 0; i < t.count(); ++i) t.as<float>()[i] = static_cast<float>(i % 13) - 6.0f;
  return t;
}

const Quantity kOne{};
const Quantity kZero{0, {}};

// in[rows, columns] -> per row; `make` writes the result of a row or of its elements.
KernelIr row_kernel(bool per_row, const std::function<IrBuilder::Ref(IrBuilder&, IrBuilder::Ref)>& make) {
  IrBuilder b;
  b.kernel.inputs = 1;
  b.kernel.extents = {dim_of(0, 0), dim_of(0, 1)};
  const IrBuilder::Ref x = b.load({0, DType::FLOAT32, {dim_of(0, 1), kOne}});
  const IrBuilder::Ref y = make(b, x);
  b.store(y, per_row ? Access{1, DType::FLOAT32, {kOne, kZero}} : Access{1, DType::FLOAT32, {dim_of(0, 1), kOne}});
  return b.kernel;
}

// Lengths around the width of a vector and of several side by side.
const int64_t kLengths[] = {1, 2, 3, 4, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 127, 128, 129, 257, 1000};

TEST(EmitLlvm, OneKernelServesEveryLength) {
  const CompiledKernel kernel(unary_kernel(Opcode::NEG));
  for (int64_t n : kLengths) {
    const Tensor x = counting({n});
    const Tensor y = kernel.run({x}, DType::FLOAT32, {n});
    for (int64_t i = 0; i < n; ++i) ASSERT_EQ(y.as<float>()[i], -x.as<float>()[i]) << n << " at " << i;
  }
}

TEST(EmitLlvm, RowSumsOfAnyLength) {
  const CompiledKernel kernel(row_kernel(true, [](IrBuilder& b, auto x) { return b.reduce(Opcode::SUM, x); }));
  for (int64_t n : kLengths) {
    const Tensor x = counting({5, n});
    const Tensor y = kernel.run({x}, DType::FLOAT32, {5});
    for (int64_t r = 0; r < 5; ++r) {
      float sum = 0;
      for (int64_t i = 0; i < n; ++i) sum += x.as<float>()[r * n + i];
      ASSERT_EQ(y.as<float>()[r], sum) << n;  // small integers: exact in any order
    }
  }
}

TEST(EmitLlvm, MaximumOfARowWithNaNIsNaN) {
  const CompiledKernel kernel(row_kernel(true, [](IrBuilder& b, auto x) { return b.reduce(Opcode::MAXIMUM, x); }));
  for (int64_t n : kLengths) {
    for (int64_t at : {int64_t{0}, n / 2, n - 1}) {
      Tensor x = counting({2, n});
      x.as<float>()[n + at] = NAN;
      const Tensor y = kernel.run({x}, DType::FLOAT32, {2});
      EXPECT_FALSE(std::isnan(y.as<float>()[0]));
      EXPECT_TRUE(std::isnan(y.as<float>()[1])) << n << " at " << at;
    }
  }
}

// Costly values that a later pass reads are kept in a row buffer: here e^x, for the division by its sum.
TEST(EmitLlvm, CostlyValuesAreKeptBetweenPasses) {
  const KernelIr softmax = row_kernel(false, [](IrBuilder& b, auto x) {
    const auto e = b.unary(Opcode::EXP, x);
    return b.binary(Opcode::DIV, e, b.reduce(Opcode::SUM, e));
  });
  const CompiledKernel kernel(softmax);
  EXPECT_EQ(kernel.row_buffers, 1);
  for (int64_t n : kLengths) {
    const Tensor x = counting({3, n});
    for (int threads : {1, 3}) {
      const Tensor y = kernel.run({x}, DType::FLOAT32, {3, n}, threads);
      for (int64_t r = 0; r < 3; ++r) {
        double sum = 0;
        for (int64_t i = 0; i < n; ++i) sum += std::exp(static_cast<double>(x.as<float>()[r * n + i]));
        for (int64_t i = 0; i < n; ++i) {
          const double want = std::exp(static_cast<double>(x.as<float>()[r * n + i])) / sum;
          ASSERT_NEAR(y.as<float>()[r * n + i], want, 1e-6) << n << " threads " << threads;
        }
      }
    }
  }
}

TEST(EmitLlvm, CheapValuesAreComputedAgain) {
  const CompiledKernel kernel(row_kernel(false, [](IrBuilder& b, auto x) {
    const auto twice = b.binary(Opcode::ADD, x, x);
    return b.binary(Opcode::SUB, twice, b.reduce(Opcode::SUM, twice));
  }));
  EXPECT_EQ(kernel.row_buffers, 0);
}

TEST(EmitLlvm, ThreadsShareRowsOrColumns) {
  const CompiledKernel kernel(unary_kernel(Opcode::EXP));
  const Tensor x = counting({100003});
  const Tensor one = kernel.run({x}, DType::FLOAT32, x.dims(), 1);
  for (int threads : {2, 3, 4}) {
    EXPECT_TRUE(kernel.run({x}, DType::FLOAT32, x.dims(), threads).same_as(one)) << threads;
  }
}

TEST(EmitLlvm, HalfTypesRoundAsTheReferenceDoes) {
  for (DType dtype : {DType::FLOAT16, DType::BFLOAT16}) {
    IrBuilder b;
    b.kernel.inputs = 1;
    b.kernel.extents = {dim_of(0, 0)};
    b.store(b.load({0, DType::FLOAT32, {kOne}}), {1, dtype, {kOne}});
    const CompiledKernel kernel(b.kernel);
    std::vector<float> values = {0.0f,  -0.0f, 1.0f,     1.0009765f, 65504.0f, 65520.0f,
                                 1e-8f, 6e-8f, -3.0e38f, INFINITY,   NAN};
    for (int i = 0; i < 4000; ++i) values.push_back(std::ldexp(1.0f + static_cast<float>(i) / 4096.0f, i % 40 - 30));
    const auto n = static_cast<int64_t>(values.size());
    const Tensor x = Tensor::from<float>(DType::FLOAT32, {n}, std::span<const float>(values));
    const Tensor y = kernel.run({x}, dtype, {n});
    for (int64_t i = 0; i < n; ++i) {
      const float v = values[static_cast<size_t>(i)];
      const uint16_t want = dtype == DType::FLOAT16 ? float16(v).bits : bfloat16(v).bits;
      if (std::isnan(v)) continue;
      ASSERT_EQ(y.as<uint16_t>()[i], want) << dtype_name(dtype) << " of " << v;
    }
  }
}

}  // namespace
}  // namespace deepjit
