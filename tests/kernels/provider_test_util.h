// Runs one step through a tactic provider, for tests: every tactic that it offers is made from plain constants
// and from packed ones, and compared with the op's reference.
#pragma once

#include <algorithm>
#include <random>
#include <set>

#include "kernels/kernel.h"
#include "op_test_util.h"

namespace deepjit {

// A step with its data. Inputs named in `constants` are constant.
struct StepCase {
  std::string op;
  AttrList attrs;
  std::vector<Tensor> inputs;
  std::set<int> constants = {};
  int num_outputs = 1;
};

// Uniform in [low, high), the same for every run.
inline Tensor random_f32(const Dims& dims, uint32_t seed, float low = -1, float high = 1) {
  std::mt19937 rng(seed);
  std::uniform_real_distribution<float> uniform(low, high);
  Tensor t(DType::FLOAT32, dims);
  for (int64_t i = 0; i < t.count(); ++i) t.as<float>()[i] = uniform(rng);
  return t;
}

// The case in the providers' terms.
struct BoundCase {
  Step step;
  StepShape shape;

  BoundCase(const StepCase& c, const std::vector<Tensor>& outputs) {
    step.op = c.op;
    step.attrs = make_attrs(c.attrs);
    shape.step = &step;
    for (size_t i = 0; i < c.inputs.size(); ++i) {
      const Tensor& t = c.inputs[i];
      shape.inputs.push_back(t.defined() ? t.view().desc() : TensorDesc{});
      shape.constants.push_back(c.constants.count(static_cast<int>(i)) != 0 ? &t : nullptr);
    }
    for (const Tensor& t : outputs) shape.outputs.push_back(t.view().desc());
  }
};

inline std::vector<Tensor> run_kernel(Kernel& kernel, const StepCase& c, const std::vector<Tensor>& like,
                                      const std::set<int>& withheld = {}) {
  std::vector<void*> inputs, outputs;
  std::vector<Tensor> results;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    inputs.push_back(withheld.count(static_cast<int>(i)) != 0 ? nullptr : c.inputs[i].view().data);
  }
  for (const Tensor& t : like) {
    results.emplace_back(t.dtype(), t.dims());
    std::memset(results.back().view().data, 0xcd, static_cast<size_t>(results.back().bytes()));
    outputs.push_back(results.back().view().data);
  }
  Tensor scratch(DType::UINT8, Dims{static_cast<int64_t>(kernel.scratch_bytes()) + 1});
  kernel.run(KernelArgs{inputs.data(), outputs.data(), scratch.view().data});
  return results;
}

// Largest difference over the largest expected magnitude.
inline double relative_error(const Tensor& actual, const Tensor& expected) {
  const std::vector<double> a = actual.to_f64(), e = expected.to_f64();
  double worst = 0, scale = 1e-30;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!std::isfinite(a[i])) return INFINITY;
    worst = std::max(worst, std::fabs(a[i] - e[i]));
    scale = std::max(scale, std::fabs(e[i]));
  }
  return worst / scale;
}

// Checks every offered tactic; returns the names of their variants.
inline std::vector<std::string> check_provider(const Offerer& offerer, const Launcher& launcher, const StepCase& c,
                                               double tolerance = 1e-4) {
  const std::vector<Tensor> expected = run_op(c.op, c.attrs, c.inputs, c.num_outputs);
  const BoundCase bound(c, expected);
  const Offer offer = offerer.offer(bound.shape);
  EXPECT_EQ(offer.tactics.empty(), !offer.reason.empty()) << c.op << ": " << offer.reason;
  std::vector<std::string> variants;
  for (Tactic tactic : offer.tactics) {
    variants.push_back(tactic.variant);
    std::string attrs;
    for (const auto& [name, value] : c.attrs) attrs += " " + name + "=" + attribute_to_string(value);
    SCOPED_TRACE(c.op + attrs + " " + tactic.variant);
    const std::unique_ptr<Kernel> plain = launcher.make(bound.shape, tactic);
    EXPECT_NE(plain, nullptr);
    if (plain == nullptr) continue;
    std::vector<Tensor> actual = run_kernel(*plain, c, expected);
    for (size_t i = 0; i < actual.size(); ++i) EXPECT_LE(relative_error(actual[i], expected[i]), tolerance) << i;
    offerer.pack(bound.shape, tactic);
    BoundCase packed(c, expected);
    std::set<int> withheld;
    for (const PackedOperand& p : tactic.packed) {
      const auto k = static_cast<size_t>(p.input);
      EXPECT_TRUE(launcher.unpack(p, c.inputs[k].view().desc()).same_as(c.inputs[k])) << p.format;
      packed.shape.constants[k] = nullptr;
      withheld.insert(p.input);
    }
    const std::unique_ptr<Kernel> loaded = launcher.make(packed.shape, tactic);
    EXPECT_NE(loaded, nullptr);
    if (loaded == nullptr) continue;
    actual = run_kernel(*loaded, c, expected, withheld);
    for (size_t i = 0; i < actual.size(); ++i) EXPECT_LE(relative_error(actual[i], expected[i]), tolerance) << i;
  }
  return variants;
}

}  // namespace deepjit
