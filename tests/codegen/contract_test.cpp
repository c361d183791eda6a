// Generated convolutions, products and pools (contract_case.h).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "contract_case.h"
#include "kernels/launch_words.h"
#include "kernels/nvrtc/contract_data.h"
#include "kernels/nvrtc/launch_contract.h"
#include "kernels/nvrtc/offer_contract.h"

namespace deepjit {
namespace {

using nvrtc_gpu::ContractProblem;

constexpr DType F16 = DType::FLOAT16, BF16 = DType::BFLOAT16, F32 = DType::FLOAT32;

TEST(Contract, ProductsOfEveryTile) {
  std::vector<ContractCase> cases;
  for (DType type : {F16, F32}) {
    // One product for each tile: all sizes end in the middle of it.
    ContractCase c{"MatMul", {}, {{type, {37, 200}}, {type, {200, 72}, true}}, {}, {37, 72}};
    if (type == F16) {
      c.variants = {"mma128x128x32w2x2s3k1", "mma64x64x32w2x2s4k2",  "mma32x64x64w2x2s3k1", "mma16x64x64w1x4s3k1",
                    "mma64x16x64w4x1s3k2",   "mma16x32x128w1x2s3k1", "mma256x64x32w4x1s3k1"};
    } else {
      c.variants = {"fma128x128x16w4x2s3k1", "fma64x64x16w2x2s3k2", "fma32x32x32w2x1s4k4"};
    }
    cases.push_back(c);
  }
  check_contracts(cases, false, {80, 86, 89, 90, 120});
}

TEST(Contract, ProductsOfEveryForm) {
  std::vector<ContractCase> cases;
  for (DType type : {F16, BF16, F32}) {
    for (bool turn_a : {false, true}) {
      for (bool turn_b : {false, true}) {
        // Rows that are aligned, and rows that are not.
        for (int64_t k : {48, 37}) {
          const Attributes attrs = with({{"trans_a", int64_t{turn_a}}, {"trans_b", int64_t{turn_b}}});
          const Dims a = turn_a ? Dims{2, 3, k, 24} : Dims{2, 3, 24, k}, b = turn_b ? Dims{3, 40, k} : Dims{3, k, 40};
          cases.push_back({"deepjit.MatMul", attrs, {{type, a}, {type, b}}, {}, {2, 3, 24, 40}});
        }
      }
    }
  }
  for (ContractCase& c : cases) {
    c.variants = {c.inputs[0].dtype == F32 ? "fma32x32x32w2x1s3k1" : "mma32x32x64w2x2s3k1"};
  }
  check_contracts(cases, false, {80});
}

TEST(Contract, BatchesThatBroadcast) {
  std::vector<ContractCase> cases;
  for (DType type : {F16, F32}) {
    const auto add = [&](const Dims& a, const Dims& b, const Dims& y, bool constant = false) {
      cases.push_back({"MatMul", {}, {{type, a}, {type, b, constant}}, {}, y});
      cases.back().variants = {type == F32 ? "fma32x32x32w2x1s3k1" : "mma32x32x64w2x2s3k1"};
    };
    add({2, 1, 3, 5, 16}, {1, 4, 3, 16, 8}, {2, 4, 3, 5, 8});
    add({4, 5, 16}, {16, 9}, {4, 5, 9}, true);
    add({1, 5, 16}, {6, 16, 8}, {6, 5, 8}, true);
    add({16}, {16, 24}, {24});
    add({7, 16}, {16}, {7});
    add({3, 7, 16}, {16}, {3, 7});
  }
  check_contracts(cases);
}

TEST(Contract, Tf32) {
  ContractCase c{"MatMul",
                 {},
                 {{F32, {37, 100}}, {F32, {100, 72}, true}},
                 {"tf32mma64x64x16w2x2s3k1", "tf32mma32x32x32w2x2s3k2"},
                 {37, 72}};
  ContractCase turned{"deepjit.MatMul",
                      with({{"trans_a", int64_t{1}}}),
                      {{F32, {40, 36}}, {F32, {40, 24}}},
                      {"tf32mma32x64x32w2x2s3k1"},
                      {36, 24}};
  ContractCase image{"deepjit.Conv",
                     conv({1, 1}, {1, 1, 1, 1}),
                     {{F32, {1, 7, 6, 8}}, {F32, {24, 8, 3, 3}, true}},
                     {"tf32mma16x64x32w1x4s3k1"},
                     {1, 7, 6, 24}};
  check_contracts({c, turned, image}, true, {80, 90});
}

TEST(Contract, Epilogues) {
  std::vector<ContractCase> cases;
  for (DType type : {F16, BF16, F32}) {
    const auto add = [&](Strings entries, std::vector<ContractOperand> more, bool bias) {
      ContractCase c{"deepjit.MatMul",
                     with({{"epilogue", entries}}),
                     {{type, {2, 3, 10, 32}}, {type, {32, 24}, true}},
                     {},
                     {2, 3, 10, 24}};
      c.inputs.push_back(bias ? ContractOperand{type, {24}, true} : ContractOperand{});
      c.inputs.insert(c.inputs.end(), more.begin(), more.end());
      c.variants = {type == F32 ? "fma32x32x32w2x1s3k1" : "mma32x32x64w2x2s3k1"};
      cases.push_back(c);
    };
    for (const char* one : {"Relu", "Sigmoid", "Tanh", "Gelu", "GeluTanh", "Abs", "Clip(-0.5,0.5)", "LeakyRelu(0.1)",
                            "Elu(0.7)", "HardSigmoid(0.2,0.5)", "HardSwish", "Swish(1)", "Softplus", "Linear(0.5,1)"}) {
      if (type != F32 && std::string(one) != "Gelu" && std::string(one) != "HardSwish") continue;
      add({one}, {}, true);
    }
    add({"Add($3)", "Relu"}, {{type, {2, 3, 10, 24}}}, true);
    add({"Mul($3)", "Add($4)", "Sub($5)"}, {{type, {2, 1, 1, 24}}, {type, {3, 10, 1}}, {type, {1}}}, false);
    add({"Add($3)", "Add($4)"}, {{type, {2, 1, 10, 24}}, {type, {10, 24}}}, true);
    if (type == F32) add({"Div($3)"}, {{type, {24}}}, true);
  }
  check_contracts(cases, false, {90});
}

TEST(Contract, Gemm) {
  std::vector<ContractCase> cases;
  for (DType type : {F16, F32}) {
    for (bool turn : {false, true}) {
      cases.push_back(
          {"Gemm",
           with({{"alpha", 0.5f}, {"beta", 2.0f}, {"transB", int64_t{turn}}, {"transA", int64_t{turn}}}),
           {{type, turn ? Dims{40, 5} : Dims{5, 40}}, {type, turn ? Dims{30, 40} : Dims{40, 30}, true}, {type, {5, 1}}},
           {},
           {5, 30}});
      cases.back().variants = {type == F32 ? "fma16x64x32w2x1s3k1" : "mma16x64x64w1x4s3k1"};
    }
  }
  check_contracts(cases);
}

TEST(Contract, Convolutions) {
  std::vector<ContractCase> cases;
  for (DType type : {F16, BF16, F32}) {
    const auto add = [&](const Attributes& attrs, const Dims& x, const Dims& w, const Dims& y,
                         std::vector<ContractOperand> more = {}) {
      ContractCase c{"deepjit.Conv", attrs, {{type, x}, {type, w, true}}, {}, y};
      c.inputs.insert(c.inputs.end(), more.begin(), more.end());
      c.variants = {type == F32 ? "fma32x32x32w2x1s3k1" : "mma32x32x64w2x2s3k1"};
      cases.push_back(c);
    };
    add(conv({1, 1}, {1, 1, 1, 1}), {2, 7, 5, 16}, {24, 16, 3, 3}, {2, 7, 5, 24}, {{type, {24}, true}});
    add(conv({2, 2}, {1, 1, 1, 1}), {1, 8, 9, 16}, {8, 16, 3, 3}, {1, 4, 5, 8});
    add(conv({1, 1}, {0, 0, 0, 0}), {2, 5, 6, 24}, {40, 24, 1, 1}, {2, 5, 6, 40});
    add(conv({2, 2}, {0, 0, 0, 0}), {2, 5, 6, 16}, {16, 16, 1, 1}, {2, 3, 3, 16});
    add(conv({2, 2}, {3, 3, 3, 3}), {1, 17, 16, 3}, {16, 3, 7, 7}, {1, 9, 8, 16}, {{type, {16}, true}});  // a stem
    add(conv({1, 1}, {2, 1, 2, 1}, 1, {2, 1}), {1, 6, 6, 8}, {8, 8, 3, 3}, {1, 6, 6, 8});
    add(conv({1, 1}, {1, 1, 1, 1}, 4), {1, 6, 5, 32}, {64, 8, 3, 3}, {1, 6, 5, 64}, {{type, {64}, true}});  // groups
    add(conv({1, 1}, {1, 1, 1, 1}, 2), {1, 4, 5, 10}, {6, 5, 3, 3}, {1, 4, 5, 6});
    add(conv({1, 1}, {0, 1, 1, 0}), {1, 4, 5, 13}, {7, 13, 2, 2}, {1, 4, 5, 7});
    add(conv({1, 1}, {1, 1, 1, 1}, 1, {1, 1}, {"Add($3)", "Relu", "Mul($4)"}), {2, 4, 4, 8}, {16, 8, 3, 3},
        {2, 4, 4, 16}, {{type, {16}, true}, {type, {2, 4, 4, 16}}, {type, {2, 1, 1, 16}}});
    add(with({{"layout", std::string("NHWC")}, {"pads", Ints{1, 1}}}), {2, 9, 16}, {8, 16, 3}, {2, 9, 8});  // 1-D
  }
  check_contracts(cases, false, {80});
}

TEST(Contract, TransposedConvolutions) {
  std::vector<ContractCase> cases;
  for (DType type : {F16, F32}) {
    const auto add = [&](const Attributes& attrs, const Dims& x, const Dims& w, const Dims& y) {
      cases.push_back({"deepjit.ConvTranspose", attrs, {{type, x}, {type, w, true}}, {}, y});
      cases.back().variants = {type == F32 ? "fma32x32x32w2x1s3k1" : "mma32x32x64w2x2s3k1"};
    };
    add(conv({2, 2}, {0, 0, 0, 0}), {1, 4, 5, 16}, {16, 8, 2, 2}, {1, 8, 10, 8});
    add(conv({2, 2}, {1, 1, 1, 1}), {2, 4, 3, 8}, {8, 6, 3, 3}, {2, 7, 5, 6});
    add(conv({1, 1}, {1, 1, 1, 1}, 2), {1, 4, 4, 16}, {16, 4, 3, 3}, {1, 4, 4, 8});
    add(conv({2, 1}, {0, 1, 1, 0}, 1, {1, 2}), {1, 3, 4, 5}, {5, 3, 3, 2}, {1, 6, 5, 3});
  }
  check_contracts(cases, false, {80});
}

TEST(Contract, MaximumKeepsNan) {
  const ContractCase c{"deepjit.MaxPool",
                       with({{"layout", std::string("NHWC")}, {"kernel_shape", Ints{2, 2}}}),
                       {{F32, {1, 3, 3, 4}}},
                       {"window1x4x64"},
                       {1, 2, 2, 4}};
  auto made = make_case(c, false);
  made->data[0].as<float>()[0] = NAN;
  CudaOnCpu kernels;
  add_kernels(c.variants, *made, kernels);
  kernels.compile();
  EmulatedDevice device(kernels);
  const Tensor got = run_once(*made, made->kernels[0].second, device, false);
  EXPECT_TRUE(std::isnan(got.as<float>()[0]));
  EXPECT_FALSE(std::isnan(got.as<float>()[1]));
}

TEST(Contract, ServesOtherSizesOfOpenDimsOnly) {
  ContractCase c{"deepjit.Conv",
                 conv({1, 1}, {1, 1, 1, 1}),
                 {{F16, {2, 7, 5, 16}}, {F16, {24, 16, 3, 3}, true}},
                 {},
                 {2, 7, 5, 24}};
  auto made = make_case(c, false);
  CudaOnCpu kernels;
  add_kernels(c.variants, *made, kernels);
  kernels.compile();
  EmulatedDevice device(kernels);
  StepShape shape = made->shape;
  shape.device = &device;
  const Tensor launch = *packed_data(made->kernels[0].second, nvrtc_gpu::kContractFormat);
  shape.inputs[0].dims = {1, 9, 4, 16};
  shape.outputs[0].dims = {1, 9, 4, 24};
  EXPECT_NE(nvrtc_gpu::make_contract_kernel(shape, device.load({}), launch), nullptr);
  shape.inputs[0].dims = {1, 9, 4, 8};
  shape.inputs[1].dims = {24, 8, 3, 3};
  EXPECT_EQ(nvrtc_gpu::make_contract_kernel(shape, device.load({}), launch), nullptr);
}

TEST(Contract, SaysWhyThereIsNoKernel) {
  const auto reason = [](const ContractCase& c) {
    auto made = make_case(c, false);
    return nvrtc_gpu::offer_contract(made->shape).reason;
  };
  const ContractOperand x{F32, {1, 4, 4, 8}}, w{F32, {8, 8, 3, 3}, true};
  EXPECT_EQ(reason({"Conv", with({{"pads", Ints{1, 1, 1, 1}}}), {{F32, {1, 8, 4, 4}}, w}, {}, {1, 8, 4, 4}}),
            "its channels come first");
  EXPECT_EQ(reason({"deepjit.Conv", conv({1, 1}, {1, 1, 1, 1}), {x, {F32, {8, 8, 3, 3}}}, {}, {1, 4, 4, 8}}),
            "its weights are no constant");
}

TEST(Contract, WeightsComeBackFromTheirPackedForm) {
  const auto check_layout = [](const ContractCase& c) {
    auto made = make_case(c, false);
    const ContractProblem problem = nvrtc_gpu::contract_problem(made->shape);
    ASSERT_EQ(problem.reason, "");
    nvrtc_gpu::WeightLayout layout = nvrtc_gpu::weight_layout(problem, made->shape);
    for (int64_t tile : {0, 32, 48}) {
      layout.tile = tile;
      if (tile > 0 && (layout.groups > 1 || c.inputs[1].dtype == F32)) continue;
      const Tensor packed = nvrtc_gpu::pack_weights(nvrtc_gpu::WeightLayout::parse(layout.to_string()), made->data[1]);
      const Tensor back = nvrtc_gpu::unpack_weights(layout, packed, made->shape.inputs[1]);
      EXPECT_EQ(0, std::memcmp(back.view().data, made->data[1].view().data, static_cast<size_t>(back.bytes())))
          << made->text << " " << layout.to_string();
      EXPECT_THROW(nvrtc_gpu::unpack_weights(layout, packed, {F32, {1, 2}}), Error);
    }
  };
  check_layout({"deepjit.Conv",
                conv({1, 1}, {1, 1, 1, 1}, 2),
                {{F16, {1, 4, 5, 10}}, {F16, {6, 5, 3, 3}, true}},
                {},
                {1, 4, 5, 6}});
  check_layout({"deepjit.Conv",
                conv({1, 1}, {1, 1, 1, 1}, 5),
                {{F32, {1, 4, 5, 5}}, {F32, {5, 1, 3, 3}, true}},
                {},
                {1, 4, 5, 5}});
  check_layout({"deepjit.ConvTranspose",
                conv({1, 1}, {1, 1, 1, 1}, 2),
                {{F32, {1, 4, 4, 16}}, {F32, {16, 4, 3, 3}, true}},
                {},
                {1, 4, 4, 8}});
  check_layout({"MatMul", {}, {{F32, {2, 3, 7}}, {F32, {2, 7, 9}, true}}, {}, {2, 3, 9}});
  check_layout({"MatMul", {}, {{F16, {3, 203}}, {F16, {203, 77}, true}}, {}, {3, 77}});
  check_layout({"deepjit.Conv",
                conv({1, 1}, {1, 1, 1, 1}),
                {{F16, {1, 4, 5, 10}}, {F16, {37, 10, 3, 3}, true}},
                {},
                {1, 4, 5, 37}});
  for (const char* bad : {"", "weights 1 2", "weights 1 2 3 4 2 0", "weights 0 1 1 1 1 0", "weights 1 1 1 1 1 0 ",
                          "weights 1 1 1 1 1 0 tiles 0", "weights 2 1 1 1 1 0 tiles 64"}) {
    EXPECT_THROW(nvrtc_gpu::WeightLayout::parse(bad), Error) << bad;
  }
}

TEST(Contract, TilesAreText) {
  for (const char* good : {"mma128x64x32w2x2s4k2", "wgmma128x256x64w8x1s4k1", "wgmma128x256x64w8x1s4k1c4",
                           "tf32mma64x64x16w2x2s3k1", "fma32x32x32w2x1s3k16"}) {
    EXPECT_EQ(ContractTile::parse(good).to_string(), good);
  }
  for (const char* bad : {"", "mma", "mma64x64x32w2x2s3", "mma64x64x32w2x2s3k0", "mma64x64x32w2x2s3k1x",
                          "mma64x64x32w2x2s3k1c", "mma64x64x32w2x2s3k1c0", "sum64x64x32w2x2s3k1"}) {
    EXPECT_THROW(ContractTile::parse(bad), Error) << bad;
  }
  for (const char* good : {"window2x4x64", "window8x2x128r4", "window7x2x224r2s14x14x32", "window7x1x64s7x7x8"}) {
    EXPECT_EQ(WindowTile::parse(good).to_string(), good);
  }
  EXPECT_EQ(WindowTile::parse("window2x4x64").chunk, 4);
  EXPECT_EQ(WindowTile::parse("window7x2x224r2s14x28x32").down, 28);
  for (const char* bad : {"window", "window0x4x64", "window2x3x64", "window2x4x63", "window2x4x64 ", "window2x4x64r0",
                          "window2x4x64r1", "window2x4x64s8", "window2x4x64s8x8", "window2x4x64s7x8x8",
                          "window2x4x64r2s8x7x8", "window2x4x64s8x8x6", "window2x4x64s8x8x8r2", "window2x4x64s0x0x0"})
    EXPECT_THROW(WindowTile::parse(bad), Error) << bad;
}

}  // namespace
}  // namespace deepjit
