// Generated depthwise convolutions and pools (contract_case.h).
#include <gtest/gtest.h>

#include "contract_case.h"
#include "kernels/nvrtc/offer_contract.h"

namespace deepjit {
namespace {

constexpr DType F16 = DType::FLOAT16, BF16 = DType::BFLOAT16, F32 = DType::FLOAT32;

Attributes pool(const Ints& kernel, const Ints& strides, const Ints& pads, int64_t counts, int64_t ceil) {
  return with({{"layout", std::string("NHWC")},
               {"kernel_shape", kernel},
               {"strides", strides},
               {"pads", pads},
               {"count_include_pad", counts},
               {"ceil_mode", ceil}});
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

}  // namespace
}  // namespace deepjit
