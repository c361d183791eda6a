// The cuDNN provider at work, on the stand-in driver and library: what it offers, that threads compile plans side by
// side, and that its kernels agree with the reference. In processes of their own, as a driver is loaded once.
#include "fake_cudnn.h"

#include <dlfcn.h>

#include <cstdlib>

#include "../kernels/provider_test_util.h"
#include "device/device.h"
#include "kernels/cudnn/graph.h"
#include "kernels/cudnn/library.h"
#include "kernels/kernel_cache.h"
#include "ops/pointwise/cast.h"
#include "own_process.h"
#include "tune/compile_ahead.h"
#include "tune/device_bench.h"

namespace deepjit {
namespace {

using Strings = std::vector<std::string>;

struct StandInCudnn {
  decltype(&fake_cudnn_take_counts) take_counts = nullptr;
  decltype(&fake_cudnn_wait_for_company) wait_for_company = nullptr;
};

// A small convolution of a channels-last image with bias and residual, constant weights.
StepCase convolution(int64_t channels) {
  return {"deepjit.Conv",
          {{"layout", std::string("NHWC")},
           {"pads", std::vector<int64_t>{1, 1, 1, 1}},
           {"strides", std::vector<int64_t>{2, 1}},
           {"epilogue", Strings{"Add($3)", "Relu"}}},
          {random_f32({2, 6, 5, channels}, 1), random_f32({4, channels, 3, 3}, 2), random_f32({4}, 3),
           random_f32({2, 3, 5, 4}, 4)},
          {1, 2}};
}

class StandInCudnnTest : public testing::Test {
 protected:
  void SetUp() override {
    const cudnn::Library* library = std::getenv("DEEPJIT_CUDA_DRIVER") == nullptr ? nullptr : cudnn::find_library();
    void* handle = library == nullptr ? nullptr : dlopen(library->file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr || dlsym(handle, "fake_cudnn_take_counts") == nullptr) {
      GTEST_SKIP() << "not on the stand-in library";
    }
    fake_.take_counts = reinterpret_cast<decltype(fake_.take_counts)>(dlsym(handle, "fake_cudnn_take_counts"));
    fake_.wait_for_company =
        reinterpret_cast<decltype(fake_.wait_for_company)>(dlsym(handle, "fake_cudnn_wait_for_company"));
    device_ = device::open("cuda");
    fake_.take_counts();
  }

  // In the providers' terms; both arguments must outlive it.
  StepShape shape_of(const BoundCase& bound) {
    StepShape shape = bound.shape;
    shape.step = &bound.step;
    shape.program = &program_;
    shape.device = device_.get();
    shape.architectures = {90};
    shape.kernels = &cache_;
    return shape;
  }

  StandInCudnn fake_;
  std::shared_ptr<device::Device> device_;
  Program program_;
  KernelCache cache_{""};
};

TEST_F(StandInCudnnTest, EveryEngineThatWorksAgreesWithTheReference) {
  const StepCase c = convolution(3);
  const std::vector<Tensor> expected = run_op(c.op, c.attrs, c.inputs);
  const BoundCase bound(c, expected);
  const StepShape shape = shape_of(bound);
  const Offer offer = cudnn_offerer().offer(shape);
  ASSERT_EQ(offer.tactics.size(), 4u) << offer.reason;
  EXPECT_EQ(offer.tactics[0].variant, "eng0.k2=10");
  std::vector<Tensor> results;
  results.emplace_back(expected[0].dtype(), expected[0].dims());
  int good = 0;
  for (Tactic tactic : offer.tactics) {
    if (tactic.variant == "eng3.k2=13") {
      EXPECT_EQ(error_code_of([&] { cudnn_offerer().pack(shape, tactic); }), Code::INTERNAL);
      continue;
    }
    cudnn_offerer().pack(shape, tactic);
    EXPECT_EQ(tactic.packed.size(), 2u);  // weights and plan
    const std::unique_ptr<Kernel> kernel = cudnn_launcher().make(shape, tactic);
    ASSERT_NE(kernel, nullptr);
    DeviceBench bench(*device_);
    bench.bring(*kernel, tactic);
    bench.run(*kernel, c.inputs, results);
    EXPECT_LE(relative_error(results[0], expected[0]), 1e-5) << tactic.variant;
    EXPECT_GT(bench.sample(*kernel, 3), 0);
    ++good;
  }
  EXPECT_EQ(good, 3);
  const fake_cudnn_counts counts = fake_.take_counts();
  EXPECT_EQ(counts.plans_made, 4u);
  EXPECT_EQ(counts.plans_loaded, 3u);  // what was packed is not compiled again
  EXPECT_EQ(counts.clashes, 0u);
}

TEST_F(StandInCudnnTest, PlansAreCompiledSideBySideAndOnce) {
  std::vector<StepCase> cases;
  std::vector<std::vector<Tensor>> expected;
  std::vector<std::unique_ptr<BoundCase>> bound;
  for (int64_t channels : {4, 5, 6}) {
    cases.push_back(convolution(channels));
    expected.push_back(run_op(cases.back().op, cases.back().attrs, cases.back().inputs));
  }
  std::vector<CompileJob> jobs;
  for (size_t i = 0; i < cases.size(); ++i) {
    bound.push_back(std::make_unique<BoundCase>(cases[i], expected[i]));
    const StepShape shape = shape_of(*bound.back());
    for (const Tactic& tactic : cudnn_offerer().offer(shape).tactics) jobs.push_back({&cudnn_offerer(), shape, tactic});
  }
  ASSERT_EQ(jobs.size(), 12u);
  fake_.wait_for_company(1);
  compile_ahead(jobs, [] { return false; });
  fake_.wait_for_company(0);
  fake_cudnn_counts counts = fake_.take_counts();
  EXPECT_EQ(counts.plans_made, 12u);
  EXPECT_GE(counts.most_at_once, 2u);
  EXPECT_GE(counts.handles, 2u);
  EXPECT_EQ(counts.clashes, 0u);
  EXPECT_EQ(cache_.compiled(), 9);
  for (const CompileJob& job : jobs) {  // what did not compile is not tried again either
    Tactic tactic = job.tactic;
    const bool bad = tactic.variant == "eng3.k2=13";
    EXPECT_EQ(error_code_of([&] { cudnn_offerer().pack(job.shape, tactic); }), bad ? Code::INTERNAL : Code::OK);
  }
  counts = fake_.take_counts();
  EXPECT_EQ(counts.plans_made, 0u);
  EXPECT_EQ(counts.handles, 0u);
}

Tensor half(const Tensor& wide) {
  Tensor out(DType::FLOAT16, wide.dims());
  cast_elements(wide.view(), out.view());
  return out;
}

// Steps of one operation, each with how many of its engines there are.
std::vector<StepCase> lone_operations() {
  using Ints = std::vector<int64_t>;
  const Tensor image = half(random_f32({2, 7, 9, 8}, 1));
  const AttrList last = {{"layout", std::string("NHWC")}};
  const auto windows = [&](Ints kernel, Ints strides, Ints pads, AttrList more) {
    more.insert(more.end(), last.begin(), last.end());
    more.insert(more.end(),
                {{"kernel_shape", std::move(kernel)}, {"strides", std::move(strides)}, {"pads", std::move(pads)}});
    return more;
  };
  const AttrList ceil = {{"ceil_mode", int64_t{1}}}, pads = {{"count_include_pad", int64_t{1}}};
  const auto heads = [](int64_t heads, int64_t rows, uint32_t seed) {
    return half(random_f32({2, heads, rows, 16}, seed));
  };
  const auto rows = [](int64_t rows, uint32_t seed) { return half(random_f32({2, rows, 48}, seed)); };
  const AttrList three = {{"q_num_heads", int64_t{3}}, {"kv_num_heads", int64_t{3}}};
  return {
      {"deepjit.MaxPool", windows({3, 3}, {2, 1}, {1, 1, 1, 1}, {}), {image}},
      {"deepjit.MaxPool", windows({2, 3}, {2, 2}, {0, 0, 0, 0}, ceil), {image}},
      {"deepjit.AveragePool", windows({3, 2}, {1, 2}, {1, 0, 0, 1}, {}), {image}},
      {"deepjit.AveragePool", windows({3, 3}, {2, 2}, {1, 1, 1, 1}, pads), {image}},
      {"deepjit.GlobalAveragePool", last, {image}},
      {"Attention", {}, {heads(4, 5, 1), heads(2, 7, 2), heads(2, 7, 3)}},
      {"Attention", {{"scale", 0.5f}}, {heads(1, 1, 1), heads(1, 9, 2), heads(1, 9, 3)}},
      {"Attention", three, {rows(5, 1), rows(6, 2), rows(6, 3)}},
  };
}

TEST_F(StandInCudnnTest, PoolsAndAttentionAgreeWithTheReference) {
  for (const StepCase& c : lone_operations()) {
    SCOPED_TRACE(c.op);
    const std::vector<Tensor> expected = run_op(c.op, c.attrs, c.inputs);
    const BoundCase bound(c, expected);
    const StepShape shape = shape_of(bound);
    const Offer offer = cudnn_offerer().offer(shape);
    ASSERT_EQ(offer.tactics.size(), 4u) << offer.reason;
    Tactic tactic = offer.tactics[0];
    cudnn_offerer().pack(shape, tactic);
    const std::unique_ptr<Kernel> kernel = cudnn_launcher().make(shape, tactic);
    ASSERT_NE(kernel, nullptr);
    std::vector<Tensor> results;
    results.emplace_back(expected[0].dtype(), expected[0].dims());
    DeviceBench bench(*device_);
    bench.bring(*kernel, tactic);
    bench.run(*kernel, c.inputs, results);
    EXPECT_LE(relative_error(results[0], expected[0]), 2e-3);
  }
}

// Q, K and V side by side in one tensor.
TEST_F(StandInCudnnTest, AttentionReadsPartsOfATensor) {
  const Tensor all = half(random_f32({2, 5, 3 * 32}, 1));
  const StepCase c{"deepjit.Attention",
                   {{"q_num_heads", int64_t{2}},
                    {"kv_num_heads", int64_t{2}},
                    {"head_size", int64_t{16}},
                    {"starts", std::vector<int64_t>{0, 32, 64}},
                    {"tokens_first", std::vector<int64_t>{0, 0, 0, 1}}},
                   {all, all, all}};
  const std::vector<Tensor> expected = run_op(c.op, c.attrs, c.inputs);
  const BoundCase bound(c, expected);
  const StepShape shape = shape_of(bound);
  const Offer offer = cudnn_offerer().offer(shape);
  ASSERT_EQ(offer.tactics.size(), 4u) << offer.reason;
  const std::unique_ptr<Kernel> kernel = cudnn_launcher().make(shape, offer.tactics[0]);
  ASSERT_NE(kernel, nullptr);
  std::vector<Tensor> results;
  results.emplace_back(expected[0].dtype(), expected[0].dims());
  DeviceBench bench(*device_);
  bench.run(*kernel, c.inputs, results);
  EXPECT_LE(relative_error(results[0], expected[0]), 2e-3);
}

TEST(CudnnGraph, WhatItDoesNotPoolOrAttendTo) {
  const auto reason = [](const StepCase& c) {
    const BoundCase bound(c, run_op(c.op, c.attrs, c.inputs, c.num_outputs));
    return cudnn::graph_of(bound.shape, false).reason;
  };
  const Tensor image = half(random_f32({1, 6, 6, 4}, 1)), heads = half(random_f32({1, 2, 4, 16}, 2));
  const std::vector<int64_t> two = {2, 2};
  EXPECT_NE(reason({"MaxPool", {{"kernel_shape", two}}, {image}}), "");  // channels first
  const AttrList last = {{"layout", std::string("NHWC")}, {"kernel_shape", two}};
  EXPECT_EQ(reason({"deepjit.MaxPool", last, {image}}), "");
  AttrList dilated = last;
  dilated.emplace_back("dilations", two);
  EXPECT_NE(reason({"deepjit.MaxPool", dilated, {image}}), "");
  EXPECT_EQ(reason({"Attention", {}, {heads, heads, heads}}), "");
  EXPECT_NE(reason({"Attention", {{"is_causal", int64_t{1}}}, {heads, heads, heads}}), "");
  EXPECT_NE(reason({"Attention", {}, {heads, heads, heads, half(random_f32({4, 4}, 3))}}), "");
  const Tensor wide = random_f32({1, 2, 4, 16}, 4);
  EXPECT_NE(reason({"Attention", {}, {wide, wide, wide}}), "");
}

TEST(CudnnOnTheStandIn, AllOfIt) {
  pass_in_own_process(
      std::string("DEEPJIT_CUDA_DRIVER=") + DEEPJIT_FAKE_CUDA + " DEEPJIT_CUDA_PATH=" + DEEPJIT_FAKE_CUDNN_FOLDER,
      "StandInCudnnTest*");
}

}  // namespace
}  // namespace deepjit
