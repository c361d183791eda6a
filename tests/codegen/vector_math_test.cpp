// The elementary functions of generated CPU code against the C library in double, over the whole range of floats.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <functional>

#include "kernel_run_util.h"

namespace deepjit {
namespace {

constexpr double kSmallestNormal = 1.17549435082228750797e-38;

// Every 2,003rd bit pattern: both signs, subnormals, infinities and NaNs among them, and some special values.
Tensor sweep() {
  std::vector<float> values = {0.0f, -0.0f, INFINITY, -INFINITY, NAN, 1.0f, -1.0f, 88.7f, -87.4f, -103.9f, 1e-45f};
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 2003) {
    values.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  }
  return Tensor::from<float>(DType::FLOAT32, {static_cast<int64_t>(values.size())}, std::span<const float>(values));
}

struct Worst {
  double ulps = 0;
  float at = 0;
};

// Error in units in the last place of the true value; below the smallest normal float, in units of that.
Worst worst_error(Opcode op, const std::function<double(double)>& truth) {
  const Tensor x = sweep();
  const Tensor y = CompiledKernel(unary_kernel(op)).run({x}, DType::FLOAT32, x.dims());
  Worst worst;
  for (int64_t i = 0; i < x.count(); ++i) {
    const float at = x.as<float>()[i];
    const double want = truth(static_cast<double>(at));
    const float got = y.as<float>()[i];
    if (std::isnan(want)) {
      EXPECT_TRUE(std::isnan(got)) << "at " << at;
      continue;
    }
    const auto rounded = static_cast<float>(want);
    if (std::isinf(rounded) || std::isinf(got)) {
      EXPECT_EQ(got, rounded) << "at " << at;
      continue;
    }
    const double size = std::max(std::fabs(want), kSmallestNormal);
    const double unit = std::ldexp(1.0, std::ilogb(size) - 23);
    const double ulps = std::fabs(static_cast<double>(got) - want) / unit;
    if (ulps > worst.ulps) worst = {ulps, at};
  }
  return worst;
}

void expect_within(Opcode op, double ulps, const std::function<double(double)>& truth) {
  const Worst worst = worst_error(op, truth);
  EXPECT_LE(worst.ulps, ulps) << opcode_name(op) << " at " << worst.at;
  std::printf("%s: %.2f ulp at %g\n", std::string(opcode_name(op)).c_str(), worst.ulps, static_cast<double>(worst.at));
}

TEST(VectorMath, ExpIsWithinTwoUlps) {
  expect_within(Opcode::EXP, 2, [](double x) { return std::exp(x); });
}

TEST(VectorMath, LogIsWithinTwoUlps) {
  expect_within(Opcode::LOG, 2, [](double x) { return std::log(x); });
}

TEST(VectorMath, ErfIsWithinFiveUlps) {
  expect_within(Opcode::ERF, 5, [](double x) { return std::erf(x); });
}

TEST(VectorMath, TanhIsWithinThreeUlps) {
  expect_within(Opcode::TANH, 3, [](double x) { return std::tanh(x); });
}

TEST(VectorMath, SigmoidIsWithinThreeUlps) {
  expect_within(Opcode::SIGMOID, 3, [](double x) { return 1 / (1 + std::exp(-x)); });
}

TEST(VectorMath, ExactOnesAreExact) {
  const std::pair<Opcode, double (*)(double)> exact[] = {{Opcode::ABS, [](double x) { return std::fabs(x); }},
                                                         {Opcode::SQRT, [](double x) { return std::sqrt(x); }},
                                                         {Opcode::FLOOR, [](double x) { return std::floor(x); }},
                                                         {Opcode::CEIL, [](double x) { return std::ceil(x); }},
                                                         {Opcode::ROUND, [](double x) { return std::rint(x); }}};
  for (const auto& [op, truth] : exact) expect_within(op, 0.5, truth);
}

}  // namespace
}  // namespace deepjit
