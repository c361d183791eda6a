// The elementary functions of generated CUDA text, as the host runs it, against the C library in double. A GPU's
// instructions for a reciprocal and a power of two are off by one or two further units.
#include <gtest/gtest.h>

#include <cmath>

#include "codegen/ir_builder.h"
#include "cuda_run_util.h"

namespace deepjit {
namespace {

const Quantity kOne{};

KernelIr unary(Opcode op) {
  IrBuilder b;
  b.kernel.inputs = 1;
  b.kernel.extents = {{1, {{0, 0}}}};
  b.store(b.unary(op, b.load({0, DType::FLOAT32, {kOne}})), {1, DType::FLOAT32, {kOne}});
  return b.kernel;
}

// Both signs, from the smallest subnormal to beyond where the functions end; zeros, infinities, NaN.
Tensor sweep() {
  std::vector<float> values = {0.0f, -0.0f, INFINITY, -INFINITY, NAN, 3.4e38f, -3.4e38f};
  for (float x = 1e-45f; x < 200; x = x < 1e-30f ? x * 3 + 1e-45f : x * 1.0003f) {
    values.push_back(x);
    values.push_back(-x);
  }
  return Tensor::from<float>(DType::FLOAT32, {static_cast<int64_t>(values.size())}, std::span<const float>(values));
}

double worst_ulps(const Tensor& x, const Tensor& y, double (*truth)(double)) {
  double worst = 0;
  for (int64_t i = 0; i < x.count(); ++i) {
    const double want = truth(static_cast<double>(x.as<float>()[i]));
    const float got = y.as<float>()[i];
    if (std::isnan(want)) {
      EXPECT_TRUE(std::isnan(got));
      continue;
    }
    const auto rounded = static_cast<float>(want);
    if (std::isinf(rounded) || std::isinf(got)) {
      EXPECT_EQ(got, rounded) << "at " << x.as<float>()[i];
      continue;
    }
    const double size = std::max(std::fabs(want), 1.17549435082228750797e-38);
    worst = std::max(worst, std::fabs(static_cast<double>(got) - want) / std::ldexp(1.0, std::ilogb(size) - 23));
  }
  return worst;
}

TEST(CudaMath, UnitsInTheLastPlace) {
  struct Function {
    Opcode op;
    double ulps;
    double (*truth)(double);
  };
  const Function functions[] = {
      {Opcode::EXP, 2, [](double x) { return std::exp(x); }},
      {Opcode::LOG, 2, [](double x) { return std::log(x); }},
      {Opcode::ERF, 2, [](double x) { return std::erf(x); }},
      {Opcode::TANH, 3, [](double x) { return std::tanh(x); }},
      {Opcode::SIGMOID, 3, [](double x) { return 1 / (1 + std::exp(-x)); }},
  };
  const Tensor x = sweep();
  CudaOnCpu kernels;
  std::vector<std::string> names;
  for (const Function& f : functions) names.push_back(kernels.add(unary(f.op), {4, 0}));
  kernels.compile();
  for (size_t i = 0; i < names.size(); ++i) {
    StepShape shape;
    shape.inputs = shape.outputs = {{DType::FLOAT32, x.dims()}};
    const Tensor y(DType::FLOAT32, x.dims());
    void* in = x.view().data;
    void* out = y.view().data;
    kernels.make(names[i], shape)->run({&in, &out, nullptr});
    const double worst = worst_ulps(x, y, functions[i].truth);
    EXPECT_LE(worst, functions[i].ulps) << opcode_name(functions[i].op);
    std::printf("%s: %.2f ulp\n", std::string(opcode_name(functions[i].op)).c_str(), worst);
  }
}

}  // namespace
}  // namespace deepjit
