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

using Ints = std::vector<int64_t>;
using Strings = std::vector<std::string>;
constexpr DType F16 = DType::FLOAT16, BF16 = DType::BFLOAT16, F32 = DType::FLOAT32;

Attributes conv(Ints strides, Ints pads, int64_t group = 1, Ints dilations = {1, 1}, Strings epilogue = {}) {
  Attributes attrs = with({{"layout", std::string("NHWC")},
                           {"strides", strides},
                           {"pads", pads},
                           {"group", group},
                           {"dilations", dilations}});
  if (!epilogue.empty()) attrs.set("epilogue", epilogue);
  return attrs;
}

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

TEST(Contract, Windows) {
  std::vector<ContractCase> cases;
  for (DType type : {F16, BF16, F32}) {
    for (int64_t channels : {16, 5}) {
      const std::vector<std::string> tiles =
          channels == 5 ? std::vector<std::string>{"window1x1x64", "window4x1x64"}
          : type == F32 ? std::vector<std::string>{"window1x4x64", "window8x4x64", "window2x2x64"}
                        : std::vector<std::string>{"window1x8x64", "window5x4x64", "window4x8x64", "window2x2x64"};
      const auto add = [&](const char* op, Attributes attrs, Dims x, Dims y, std::vector<ContractOperand> more = {}) {
        ContractCase c{op, std::move(attrs), {{type, std::move(x)}}, tiles, std::move(y)};
        c.inputs.insert(c.inputs.end(), more.begin(), more.end());
        cases.push_back(c);
      };
      const int64_t C = channels;
      add("deepjit.Conv", conv({1, 1}, {1, 1, 1, 1}, C, {1, 1}, {"Relu"}), {2, 6, 9, C}, {2, 6, 9, C},
          {{type, {C, 1, 3, 3}, true}, {type, {C}, true}});
      add("deepjit.Conv", conv({2, 2}, {2, 2, 2, 2}, C), {1, 9, 11, C}, {1, 5, 6, C}, {{type, {C, 1, 5, 5}, true}});
      add("deepjit.Conv", conv({1, 1}, {2, 0, 2, 0}, C, {2, 3}), {1, 6, 10, C}, {1, 6, 4, C},
          {{type, {C, 1, 3, 3}, true}});
      const auto pool = [&](Ints kernel, Ints strides, Ints pads, int64_t counts, int64_t ceil) {
        return with({{"layout", std::string("NHWC")},
                     {"kernel_shape", kernel},
                     {"strides", strides},
                     {"pads", pads},
                     {"count_include_pad", counts},
                     {"ceil_mode", ceil}});
      };
      add("deepjit.Conv", conv({1, 1}, {3, 3, 3, 3}, C), {1, 8, 9, C}, {1, 8, 9, C}, {{type, {C, 1, 7, 7}, true}});
      add("deepjit.AveragePool", pool({1, 30}, {1, 1}, {0, 0, 0, 0}, 0, 0), {1, 2, 32, C}, {1, 2, 3, C});
      add("deepjit.MaxPool", pool({3, 3}, {2, 2}, {1, 1, 1, 1}, 0, 0), {1, 8, 9, C}, {1, 4, 5, C});
      add("deepjit.MaxPool", pool({2, 3}, {2, 2}, {0, 0, 0, 0}, 0, 1), {1, 7, 8, C}, {1, 4, 4, C});
      for (int64_t counts : {0, 1}) {
        add("deepjit.AveragePool", pool({3, 3}, {2, 2}, {1, 1, 1, 1}, counts, 0), {1, 8, 9, C}, {1, 4, 5, C});
        add("deepjit.AveragePool", pool({3, 2}, {2, 2}, {0, 1, 1, 0}, counts, 1), {1, 8, 9, C}, {1, 4, 5, C});
      }
    }
  }
  check_contracts(cases, false, {80});
}

// Rows that share what they read, and blocks that share a part of the image: their pixels, rows and channels end in the
// middle of a tile, chunks are of every size, one thread does several pieces.
TEST(Contract, WindowsOfRowsAndOfBlocks) {
  std::vector<ContractCase> cases;
  for (DType type : {F16, BF16, F32}) {
    for (int64_t C : {24, 5}) {
      using Texts = std::vector<std::string>;
      const Texts tiles = C == 5        ? Texts{"window2x1x32r2", "window3x1x64r3"}
                          : type == F32 ? Texts{"window4x4x32r2", "window2x2x32r3s4x6x16", "window3x4x64s6x3x8"}
                                        : Texts{"window3x8x32r4",      "window2x2x32r3s4x6x16", "window7x2x64r2s7x4x8",
                                                "window4x4x32s8x3x16", "window2x1x64r2s4x4x8",  "window1x8x32s3x5x24"};
      const auto add = [&](const char* op, Attributes attrs, Dims x, Dims y, std::vector<ContractOperand> more = {}) {
        ContractCase c{op, std::move(attrs), {{type, std::move(x)}}, {}, std::move(y)};
        for (const std::string& tile : tiles) {
          if (c.op == "deepjit.Conv" || tile.find('s') == std::string::npos) c.variants.push_back(tile);
        }
        c.inputs.insert(c.inputs.end(), more.begin(), more.end());
        cases.push_back(c);
      };
      const auto pool = [&](Ints kernel, Ints strides, Ints pads, int64_t counts, int64_t ceil) {
        return with({{"layout", std::string("NHWC")},
                     {"kernel_shape", kernel},
                     {"strides", strides},
                     {"pads", pads},
                     {"count_include_pad", counts},
                     {"ceil_mode", ceil}});
      };
      add("deepjit.Conv", conv({1, 1}, {3, 3, 3, 3}, C, {1, 1}, {"Relu", "Add($3)"}), {2, 7, 9, C}, {2, 7, 9, C},
          {{type, {C, 1, 7, 7}, true}, {type, {C}, true}, {type, {2, 7, 9, C}}});
      add("deepjit.Conv", conv({2, 2}, {2, 1, 2, 2}, C), {1, 9, 12, C}, {1, 5, 6, C}, {{type, {C, 1, 5, 5}, true}});
      add("deepjit.Conv", conv({1, 1}, {2, 0, 2, 0}, C, {2, 3}), {1, 6, 10, C}, {1, 6, 4, C},
          {{type, {C, 1, 3, 3}, true}});
      add("deepjit.Conv", conv({3, 1}, {4, 2, 0, 1}, C, {2, 1}, {"Mul($3)"}), {1, 13, 5, C}, {1, 5, 6, C},
          {{type, {C, 1, 3, 3}, true}, {}, {type, {1, 1, 1, C}}});
      add("deepjit.MaxPool", pool({3, 3}, {2, 2}, {1, 1, 1, 1}, 0, 0), {1, 8, 9, C}, {1, 4, 5, C});
      add("deepjit.MaxPool", pool({2, 3}, {2, 2}, {0, 0, 0, 0}, 0, 1), {1, 7, 8, C}, {1, 4, 4, C});
      for (int64_t counts : {0, 1}) {
        add("deepjit.AveragePool", pool({3, 2}, {2, 2}, {0, 1, 1, 0}, counts, 1), {1, 8, 9, C}, {1, 4, 5, C});
      }
    }
  }
  check_contracts(cases, false, {80, 90});
}

// Whatever is offered fits and is right: images small and large, channels that are whole chunks and such that are not.
TEST(Contract, OfferedWindows) {
  std::vector<ContractCase> cases;
  for (DType type : {F16, F32}) {
    const auto add = [&](int64_t size, int64_t C, int64_t kernel, int64_t stride) {
      const int64_t pad = kernel / 2, to = (size + 2 * pad - kernel) / stride + 1;
      cases.push_back({"deepjit.Conv",
                       conv({stride, stride}, {pad, pad, pad, pad}, C),
                       {{type, {1, size, size, C}}, {type, {C, 1, kernel, kernel}, true}, {type, {C}, true}},
                       {},
                       {1, to, to, C}});
    };
    add(14, 40, 7, 1);
    add(7, 48, 5, 1);
    add(17, 20, 5, 2);
    add(30, 16, 3, 2);
  }
  check_contracts(cases, false, {90});
}

// Sizes of images are arguments: what a block shares does not depend on them.
TEST(Contract, OneWindowServesAllSizes) {
  const auto image = [](int64_t images, int64_t height, int64_t width) {
    return make_case({"deepjit.Conv",
                      conv({1, 1}, {2, 2, 2, 2}, 24),
                      {{F16, {images, height, width, 24}}, {F16, {24, 1, 5, 5}, true}},
                      {},
                      {images, height, width, 24}});
  };
  const char* tile = "window4x2x64r2s8x4x16";
  auto small = image(1, 3, 5), large = image(2, 9, 17);
  CudaOnCpu kernels;
  add_kernels({tile}, *small, kernels);
  add_kernels({tile}, *large, kernels);
  EXPECT_EQ(small->kernels[0].first, large->kernels[0].first);
  kernels.compile();
  EmulatedDevice device(kernels);
  const std::vector<double> got = run_once(*large, small->kernels[0].second, device, false).to_f64();
  const std::vector<double> want = large->expected.to_f64();
  for (size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got[i], want[i], 2e-2) << i;
}

TEST(Contract, SaysWhyAWindowHasNoTile) {
  WindowSpec spec;
  spec.image.channels = spec.image.all_channels = 24;
  spec.image.kernel[0] = spec.image.kernel[1] = 7;
  const auto reason = [&](const char* tile) { return why_not_tile(spec, WindowTile::parse(tile)); };
  EXPECT_EQ(reason("window7x2x128r2s14x14x16"), "");
  EXPECT_EQ(reason("window24x2x128r2"), "its windows are too wide to be held");
  EXPECT_EQ(reason("window24x2x128"), "");
  EXPECT_EQ(reason("window4x2x128s8x8x4"), "shared pixels are copied 16 bytes at a time");
  EXPECT_EQ(reason("window8x2x128s96x96x64"), "its windows do not fit shared memory");
  spec.image.dilations[0] = int64_t{1} << 40;
  EXPECT_EQ(reason("window4x2x128s8x8x8"), "its windows do not fit shared memory");
  spec.kind = WindowSpec::Kind::AVERAGE;
  EXPECT_EQ(reason("window4x2x128s8x8x8"), "a pool reads memory");
  EXPECT_EQ(reason("window4x2x128r2"), "");
  spec.image.channels = 20;
  EXPECT_EQ(reason("window4x8x128"), "chunks do not fill a pixel");
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
    const nvrtc_gpu::WeightLayout layout = nvrtc_gpu::weight_layout(problem, made->shape);
    const Tensor packed = nvrtc_gpu::pack_weights(nvrtc_gpu::WeightLayout::parse(layout.to_string()), made->data[1]);
    const Tensor back = nvrtc_gpu::unpack_weights(layout, packed, made->shape.inputs[1]);
    EXPECT_EQ(0, std::memcmp(back.view().data, made->data[1].view().data, static_cast<size_t>(back.bytes())))
        << made->text;
    EXPECT_THROW(nvrtc_gpu::unpack_weights(layout, packed, {F32, {1, 2}}), Error);
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
