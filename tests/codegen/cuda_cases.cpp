#include "cuda_cases.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "ir_interpreter.h"

namespace deepjit {

namespace {

constexpr double kSpecial[] = {0.0,      -0.0,      1.0,          -1.0,          0.5,    2.5,     -1.5,       1e-40,
                               -1e-40,   88.0,      -104,         1e30,          -1e30,  3.4e38,  -3.4e38,    65504.0,
                               65520.0,  6e-8,      2147483648.0, -2147483649.0, 9.3e18, -9.3e18, 0.99999994, 1e-4,
                               INFINITY, -INFINITY, NAN};

double draw(std::mt19937_64& random, bool hard) {
  std::normal_distribution<double> normal(0, random() % 4 == 0 ? 30 : 1);
  return hard && random() % 3 == 0 ? kSpecial[random() % std::size(kSpecial)] : normal(random);
}

Tensor make_input(const CudaCase& c, const TensorDesc& desc, std::mt19937_64& random) {
  const bool hard = c.hard;
  Tensor t(desc.dtype, desc.dims);
  for (int64_t i = 0; i < t.count(); ++i) {
    switch (desc.dtype) {
      case DType::FLOAT64:
        t.as<double>()[i] = draw(random, hard);
        break;
      case DType::FLOAT32:
        t.as<float>()[i] = static_cast<float>(draw(random, hard));
        break;
      case DType::FLOAT16:
        t.as<float16>()[i] = float16(static_cast<float>(draw(random, hard)));
        break;
      case DType::BFLOAT16:
        t.as<bfloat16>()[i] = bfloat16(static_cast<float>(draw(random, hard)));
        break;
      case DType::BOOL:
        t.as<uint8_t>()[i] = random() % 2;
        break;
      default: {
        // All bits, and often small numbers, so that equal ones meet.
        uint64_t bits = random() % 2 == 0 ? random() : random() % 7 - 3;
        if (c.index_below > 0) bits = random() % static_cast<uint64_t>(c.index_below);
        std::memcpy(t.as<char>() + i * static_cast<int64_t>(dtype_size(desc.dtype)), &bits, dtype_size(desc.dtype));
      }
    }
  }
  return t;
}

double tolerance_of(const CudaCase& c, DType type) {
  if (c.exact) return 0;
  return type == DType::FLOAT16 ? 1e-3 : type == DType::BFLOAT16 ? 8e-3 : c.tolerance;
}

// The first element that differs, or "".
std::string difference(const CudaCase& c, const Tensor& got, const Tensor& want) {
  if (!is_float(want.dtype())) return got.same_as(want) ? "" : "integers differ";
  const std::vector<double> g = got.to_f64();
  const std::vector<double> w = want.to_f64();
  for (size_t i = 0; i < w.size(); ++i) {
    if (std::isnan(w[i]) && std::isnan(g[i])) continue;
    if (g[i] == w[i] && std::signbit(g[i]) == std::signbit(w[i])) continue;
    const double least = want.dtype() == DType::FLOAT16 ? std::max(6.2e-5, c.scale) : c.scale;
    const double error = std::abs(g[i] - w[i]) / (std::abs(w[i]) + least);
    if (std::isfinite(w[i]) && error <= tolerance_of(c, want.dtype())) continue;
    return fmt::format("at {}: {}, not {}", i, g[i], w[i]);
  }
  return "";
}

StepShape shape_of(const CudaCase& c) {
  StepShape shape;
  shape.inputs = c.inputs;
  shape.outputs = c.outputs;
  return shape;
}

void run_case(const CudaOnCpu& kernels, const std::string& kernel_name, const CudaCase& c) {
  std::mt19937_64 random(7);
  std::vector<Tensor> inputs;
  std::vector<Tensor> outputs;
  std::vector<void*> in;
  std::vector<void*> out;
  for (const TensorDesc& d : c.inputs) {
    inputs.push_back(make_input(c, d, random));
    in.push_back(inputs.back().view().data);
  }
  for (const TensorDesc& d : c.outputs) {
    outputs.emplace_back(d.dtype, d.dims);
    out.push_back(outputs.back().view().data);
  }
  const StepShape shape = shape_of(c);
  try {
    kernels.make(kernel_name, shape)->run({in.data(), out.data(), nullptr});
  } catch (const Error& e) {
    ADD_FAILURE() << c.name << ": " << e.message() << "\n" << kernels.text(kernel_name);
    return;
  }
  const std::vector<Tensor> want = interpret(c.kernel, shape, inputs);
  for (size_t i = 0; i < want.size(); ++i) {
    const std::string fault = difference(c, outputs[i], want[i]);
    EXPECT_EQ(fault, "") << c.name << ", output " << i << ", " << c.mapping.to_string() << "\n"
                         << kernels.text(kernel_name);
  }
}

}  // namespace

void check_cases(const std::vector<CudaCase>& cases) {
  CudaOnCpu kernels;
  std::vector<std::string> names;
  for (const CudaCase& c : cases) {
    ASSERT_TRUE(why_not_emit_cuda(c.kernel).empty()) << c.name;
    names.push_back(kernels.add(c.kernel, c.mapping));
  }
  kernels.compile();
  for (size_t i = 0; i < cases.size(); ++i) run_case(kernels, names[i], cases[i]);
  kernels.check_by_nvrtc();
}

}  // namespace deepjit
