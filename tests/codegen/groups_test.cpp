// Products by groups of warps (wgmma), of plain rows and of packed tiles, under the emulation (contract_case.h).
#include <gtest/gtest.h>

#include "contract_case.h"
#include "kernels/nvrtc/contract_data.h"
#include "kernels/nvrtc/launch_contract.h"
#include "kernels/nvrtc/offer_contract.h"

namespace deepjit {
namespace {

constexpr DType F16 = DType::FLOAT16, BF16 = DType::BFLOAT16;

// Groups of warps: every shape of tile, K and rows that do not fill them, a split, an image, a batch.
TEST(Contract, GroupsOfWarps) {
  std::vector<ContractCase> cases;
  for (DType type : {F16, BF16}) {
    cases.push_back({"MatMul",
                     {},
                     {{type, {130, 200}}, {type, {200, 72}, true}},
                     {"wgmma64x64x64w4x1s3k1", "wgmma128x128x64w8x1s4k1", "wgmma64x128x64w4x1s4k2",
                      "wgmma128x64x64w4x1s3k1", "wgmma64x256x64w4x2s3k1"},
                     {130, 72}});
  }
  cases.push_back({"deepjit.MatMul",
                   with({{"epilogue", std::vector<std::string>{"Gelu", "Add($3)"}}}),
                   {{F16, {2, 70, 576}}, {F16, {576, 136}, true}, {F16, {136}, true}, {F16, {2, 70, 136}}},
                   {"wgmma128x64x64w8x1s4k1", "wgmma128x96x64w8x1s4k3", "wgmma256x128x64w8x1s3k1"},
                   {2, 70, 136}});
  cases.push_back({"deepjit.Conv",
                   conv({2, 2}, {1, 1, 1, 1}, 1, {1, 1}, {"Relu"}),
                   {{F16, {2, 9, 7, 24}}, {F16, {40, 24, 3, 3}, true}, {F16, {40}, true}},
                   {"wgmma64x64x64w4x1s3k1", "wgmma128x64x64w8x1s4k2"},
                   {2, 5, 4, 40}});
  cases.push_back(
      {"MatMul", with({}), {{F16, {3, 20, 64}}, {F16, {3, 64, 64}, true}}, {"wgmma64x64x64w4x1s3k1"}, {3, 20, 64}});
  check_contracts(cases, false, {90});
}

// Weights in packed tiles: ragged everywhere, more steps along k than slots, fewer tiles than a cluster has blocks,
// more than blocks of the (emulated) device, one team and two, splits, images.
TEST(Contract, PackedTiles) {
  std::vector<ContractCase> cases;
  for (DType type : {F16, BF16}) {
    cases.push_back({"MatMul",
                     {},
                     {{type, {130, 456}}, {type, {456, 72}, true}},
                     {"wgmma64x64x64w4x1s3k1c1", "wgmma128x128x64w8x1s4k1c2", "wgmma64x128x64w4x1s4k2c4",
                      "wgmma128x256x64w8x1s4k1c4", "wgmma256x128x64w8x1s3k1c2", "wgmma128x128x64w4x1s5k1c2"},
                     {130, 72}});
  }
  cases.push_back({"deepjit.MatMul",
                   with({{"epilogue", std::vector<std::string>{"Gelu", "Add($3)"}}}),
                   {{F16, {2, 70, 576}}, {F16, {576, 136}, true}, {F16, {136}, true}, {F16, {2, 70, 136}}},
                   {"wgmma128x64x64w4x1s6k1c2", "wgmma128x96x64w8x1s4k3c1", "wgmma128x192x64w8x1s4k1c2"},
                   {2, 70, 136}});
  cases.push_back({"MatMul",
                   {},
                   {{F16, {700, 200}}, {F16, {200, 200}, true}},
                   {"wgmma64x64x64w4x1s3k1c1", "wgmma64x64x64w4x1s7k1c2", "wgmma64x48x64w4x1s5k2c1",
                    "wgmma128x64x64w8x1s3k1c2", "wgmma64x64x64w4x1s3k3c2"},
                   {700, 200}});
  cases.push_back({"Gemm",
                   with({{"transB", int64_t{1}}}),
                   {{F16, {70, 40}}, {F16, {24, 40}, true}, {F16, {24}, true}},
                   {"wgmma64x64x64w4x1s3k1c2"},
                   {70, 24}});
  cases.push_back({"MatMul", {}, {{F16, {70, 44}}, {F16, {44, 27}, true}}, {"wgmma64x32x64w4x1s3k1c1"}, {70, 27}});
  cases.push_back({"deepjit.Conv",
                   conv({2, 2}, {1, 1, 1, 1}, 1, {1, 1}, {"Relu"}),
                   {{F16, {2, 9, 7, 24}}, {F16, {40, 24, 3, 3}, true}, {F16, {40}, true}},
                   {"wgmma64x64x64w4x1s3k1c1", "wgmma128x64x64w8x1s4k2c4"},
                   {2, 5, 4, 40}});
  cases.push_back({"deepjit.Conv",
                   conv({1, 1}, {1, 1, 1, 1}, 1, {1, 1}, {}),
                   {{F16, {2, 20, 20, 12}}, {F16, {70, 12, 3, 3}, true}},
                   {"wgmma64x32x64w4x1s3k1c1"},
                   {2, 20, 20, 70}});
  check_contracts(cases, false, {90});
}

TEST(Contract, PackedTilesNeedWeights) {
  const auto offered = [](bool constant, const Dims& b) {
    const auto made = make_case({"MatMul", {}, {{F16, {4, 256, 128}}, {F16, b, constant}}, {}, {4, 256, 256}});
    made->shape.architectures = {90};
    const Offer offer = nvrtc_gpu::offer_contract(made->shape);
    return std::count_if(offer.tactics.begin(), offer.tactics.end(),
                         [](const Tactic& t) { return ContractTile::parse(t.variant).packed(); });
  };
  EXPECT_GE(offered(true, {128, 256}), 5);
  EXPECT_EQ(offered(false, {128, 256}), 0);
  EXPECT_EQ(offered(true, {4, 128, 256}), 0);
}

// For 9.0 alone groups of warps are offered too, of several shapes; where nothing is measured they do not come first.
TEST(Contract, GroupsAreOfferedForOneArchitecture) {
  const auto made = make_case({"MatMul", {}, {{F16, {1024, 128}}, {F16, {128, 256}, true}}, {}, {1024, 256}});
  const auto groups = [&](const std::vector<int>& architectures) {
    made->shape.architectures = architectures;
    const Offer offer = nvrtc_gpu::offer_contract(made->shape);
    EXPECT_EQ(offer.tactics[0].variant.rfind("mma", 0), 0u);
    return std::count_if(offer.tactics.begin(), offer.tactics.end(),
                         [](const Tactic& t) { return t.variant.rfind("wgmma", 0) == 0; });
  };
  EXPECT_GE(groups({90}), 5);
  EXPECT_EQ(groups({80, 90}), 0);
  EXPECT_EQ(groups({100}), 0);
}

// One kernel, whose rows lie elsewhere in each run: the map of its tensor copies follows them. Rows that do not start
// at a multiple of 16 bytes are copied by threads.
TEST(Contract, MapsFollowTheirRows) {
  const auto made = make_case({"MatMul", {}, {{F16, {70, 128}}, {F16, {128, 64}, true}}, {}, {70, 64}});
  CudaOnCpu kernels;
  add_kernels({"wgmma64x64x64w4x1s3k1c1"}, *made, kernels);
  kernels.compile();
  EmulatedDevice device(kernels);
  StepShape shape = made->shape;
  shape.device = &device;
  const Tactic& tactic = made->kernels[0].second;
  const auto kernel =
      nvrtc_gpu::make_contract_kernel(shape, device.load({}), *packed_data(tactic, nvrtc_gpu::kContractFormat));
  Tensor weights;
  for (const PackedOperand& packed : tactic.packed) {
    if (packed.input == 1) weights = packed.data;
  }
  const auto bytes = static_cast<size_t>(made->data[0].bytes());
  for (size_t offset : {0, 64, 2, 16, 6}) {
    Tensor memory(DType::UINT8, {static_cast<int64_t>(bytes + offset)});
    char* const rows = memory.as<char>() + offset;
    std::memcpy(rows, made->data[0].view().data, bytes);
    Tensor result(F16, {70, 64});
    void* inputs[] = {rows, weights.view().data};
    void* output = result.view().data;
    kernel->run({inputs, &output, nullptr, device.make_stream().get()});
    const std::vector<double> got = result.to_f64(), want = made->expected.to_f64();
    for (size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got[i], want[i], 5e-2) << i << " at " << offset;
  }
}

}  // namespace
}  // namespace deepjit
