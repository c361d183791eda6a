#include "contract_case.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "guarded_memory.h"
#include "kernels/launch_words.h"
#include "kernels/nvrtc/contract_data.h"
#include "kernels/nvrtc/launch_contract.h"
#include "kernels/nvrtc/launch_data.h"
#include "kernels/nvrtc/offer_contract.h"

namespace deepjit {

Tensor random_operand(DType dtype, const Dims& dims, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  Tensor t(dtype, dims);
  for (int64_t i = 0; i < t.count(); ++i) {
    const float x = normal(random);
    if (dtype == DType::BOOL) {
      t.as<uint8_t>()[i] = x > -0.5f ? 1 : 0;
      continue;
    }
    if (dtype == DType::FLOAT32)
      t.as<float>()[i] = x;
    else if (dtype == DType::FLOAT16)
      t.as<float16>()[i] = float16(x);
    else
      t.as<bfloat16>()[i] = bfloat16(x);
  }
  return t;
}

void MadeCase::run_reference() {
  expected = Tensor(shape.outputs[0].dtype, shape.outputs[0].dims);
  std::vector<void*> addresses;
  for (const Tensor& t : data) addresses.push_back(t.defined() ? t.view().data : nullptr);
  std::vector<void*> to(shape.outputs.size(), nullptr);
  to[0] = expected.view().data;
  reference_launcher().make(shape, Tactic{})->run({addresses.data(), to.data(), nullptr});
}

std::unique_ptr<MadeCase> make_case(const ContractCase& c, bool tf32) {
  auto made = std::make_unique<MadeCase>();
  Program& program = made->program;
  Step step;
  step.op = c.op;
  step.attrs = c.attrs;
  if (tf32) program.metadata["build.precision"] = "tf32";
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    const ContractOperand& o = c.inputs[i];
    made->data.emplace_back();
    if (o.dtype == DType::UNDEFINED) {
      step.inputs.push_back(-1);
      continue;
    }
    made->data.back() = random_operand(o.dtype, o.dims, i + 1);
    step.inputs.push_back(static_cast<int32_t>(program.buffers.size()));
    program.buffers.push_back({"x", {o.dtype, Shape(o.dims)}, o.constant, o.constant ? made->data.back() : Tensor()});
  }
  step.outputs.push_back(static_cast<int32_t>(program.buffers.size()));
  program.buffers.push_back({"y", {c.inputs[0].dtype, Shape(c.result)}, false, {}});
  program.steps.push_back(std::move(step));
  StepShape& shape = made->shape;
  shape.program = &program;
  shape.step = &program.steps[0];
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    shape.inputs.push_back({c.inputs[i].dtype, c.inputs[i].dims});
    shape.constants.push_back(c.inputs[i].constant ? &made->data[i] : nullptr);
  }
  shape.outputs.push_back({c.inputs[0].dtype, c.result});
  made->run_reference();
  made->text = c.op;
  for (const ContractOperand& o : c.inputs) made->text += fmt::format(" {}{}", dtype_name(o.dtype), o.dims.to_string());
  return made;
}

void add_kernels(std::vector<std::string> variants, MadeCase& made, CudaOnCpu& kernels) {
  const Offer offer = nvrtc_gpu::offer_contract(made.shape);
  ASSERT_FALSE(offer.tactics.empty()) << made.text << ": " << offer.reason;
  if (variants.empty()) {
    for (const Tactic& t : offer.tactics) variants.push_back(t.variant);
  }
  for (const std::string& variant : variants) {
    const nvrtc_gpu::ContractCode code = nvrtc_gpu::contract_code(made.shape, variant);
    Tactic tactic;
    tactic.provider = "nvrtc";
    tactic.variant = variant;
    tactic.packed = code.operands;
    made.kernels.emplace_back(kernels.add_text(code.text.name, code.text.source), std::move(tactic));
  }
}

Tensor run_once(const MadeCase& made, const Tactic& tactic, EmulatedDevice& device, bool backwards) {
  device.set_backwards(backwards);
  StepShape shape = made.shape;
  shape.device = &device;
  const std::unique_ptr<Kernel> kernel =
      nvrtc_gpu::make_contract_kernel(shape, device.load({}), *packed_data(tactic, nvrtc_gpu::kContractFormat));
  check_internal(kernel != nullptr, "no kernel at the shapes that it was made for");
  std::vector<std::unique_ptr<GuardedMemory>> memory;
  std::vector<void*> addresses;
  for (size_t i = 0; i < made.data.size(); ++i) {
    Tensor t = made.data[i];
    for (const PackedOperand& packed : tactic.packed) {
      if (packed.input == static_cast<int32_t>(i)) t = packed.data;
    }
    memory.push_back(std::make_unique<GuardedMemory>(t.defined() ? static_cast<size_t>(t.bytes()) : 0, backwards));
    if (t.defined()) std::memcpy(memory.back()->data(), t.view().data, static_cast<size_t>(t.bytes()));
    addresses.push_back(t.defined() ? memory.back()->data() : nullptr);
  }
  Tensor result(made.expected.dtype(), made.expected.dims());
  GuardedMemory out(static_cast<size_t>(result.bytes()), backwards);
  void* to = out.data();
  std::vector<char> scratch(kernel->scratch_bytes() + 16);
  kernel->run({addresses.data(), &to, scratch.data(), device.make_stream().get()});
  EXPECT_TRUE(out.is_clean()) << made.text << " " << tactic.variant << " writes beside its result";
  std::memcpy(result.view().data, out.data(), static_cast<size_t>(result.bytes()));
  return result;
}

namespace {

double largest_error(const Tensor& got, const Tensor& want) {
  const std::vector<double> x = got.to_f64(), y = want.to_f64();
  double scale = 0, error = 0;
  for (size_t i = 0; i < y.size(); ++i) scale = std::max(scale, std::abs(y[i]));
  for (size_t i = 0; i < y.size(); ++i) {
    if (std::isnan(x[i]) != std::isnan(y[i])) return INFINITY;
    if (x[i] != y[i]) error = std::max(error, std::abs(x[i] - y[i]));
  }
  return error / (scale + 1e-30);
}

}  // namespace

void check_contracts(const std::vector<ContractCase>& cases, bool tf32, const std::vector<int>& architectures) {
  std::vector<std::unique_ptr<MadeCase>> all;
  std::vector<std::vector<std::string>> variants;
  for (const ContractCase& c : cases) {
    all.push_back(make_case(c, tf32));
    variants.push_back(c.variants);
  }
  check_made(all, variants, tf32, architectures);
}

void check_made(const std::vector<std::unique_ptr<MadeCase>>& all,
                const std::vector<std::vector<std::string>>& variants, bool tf32,
                const std::vector<int>& architectures) {
  CudaOnCpu kernels;
  for (size_t i = 0; i < all.size(); ++i) {
    add_kernels(variants[i], *all[i], kernels);
    if (testing::Test::HasFatalFailure()) return;
  }
  kernels.compile();
  EmulatedDevice device(kernels);
  for (const auto& made : all) {
    const DType type = made->expected.dtype();
    const double allowed = tf32 ? 2e-3 : type == DType::FLOAT32 ? 3e-6 : type == DType::FLOAT16 ? 1e-3 : 8e-3;
    for (const auto& [name, tactic] : made->kernels) {
      const Tensor first = run_once(*made, tactic, device, false), second = run_once(*made, tactic, device, true);
      const double error = largest_error(first, made->expected);
      EXPECT_LE(error, allowed) << made->text << " " << tactic.variant << "\n"
                                << (error > allowed ? kernels.text(name) : "");
      EXPECT_EQ(0, std::memcmp(first.view().data, second.view().data, static_cast<size_t>(first.bytes())))
          << made->text << " " << tactic.variant << " depends on the order of threads";
    }
  }
  if (!architectures.empty()) kernels.check_by_nvrtc({}, architectures);
}

}  // namespace deepjit
