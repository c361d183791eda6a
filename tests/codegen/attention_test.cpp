// Generated attentions (contract_case.h).
#include "codegen/contract/attention.h"

#include <gtest/gtest.h>

#include "contract_case.h"
#include "kernels/nvrtc/offer_contract.h"

namespace deepjit {
namespace {

constexpr DType F16 = DType::FLOAT16, BF16 = DType::BFLOAT16, F32 = DType::FLOAT32;
const std::vector<std::string> kEveryTile = {"attention4x1x64", "attention2x2x32", "attention1x4x16",
                                             "attention2x1x64"};

Attributes heads(int64_t q, int64_t kv, bool causal = false) {
  return with({{"q_num_heads", q}, {"kv_num_heads", kv}, {"is_causal", int64_t{causal}}});
}

TEST(GeneratedAttention, EveryTileAndLength) {
  std::vector<ContractCase> cases;
  for (DType type : {F16, BF16}) {
    for (int64_t length : {5, 64, 131}) {
      const Dims dims{2, length, 96};
      cases.push_back({"Attention", heads(3, 3), {{type, dims}, {type, dims}, {type, dims}}, kEveryTile, dims});
    }
  }
  check_contracts(cases, false, {80, 90});
}

TEST(GeneratedAttention, HeadsOfOtherSizesAndRanks) {
  std::vector<ContractCase> cases;
  for (int64_t head : {16, 48, 64, 128}) {
    const Dims q{1, 2, 20, head}, k{1, 2, 37, head};
    cases.push_back({"Attention", {}, {{F16, q}, {F16, k}, {F16, k}}, {"attention2x1x32"}, q});
  }
  for (int64_t head : {16, 48, 80, 256}) {  // columns that do not share out evenly, queries that stay in memory
    const Dims q{1, 2, 20, head}, k{1, 2, 70, head};
    const std::string tile = head == 256 ? "attention4x1x16" : "attention1x4x16";
    cases.push_back({"Attention", {}, {{F16, q}, {F16, k}, {F16, k}}, {tile}, q});
  }
  const Dims q{1, 9, 128}, k{1, 33, 64};
  cases.push_back({"Attention", heads(4, 2), {{F16, q}, {F16, k}, {F16, k}}, {"attention1x2x16"}, q});  // shared heads
  check_contracts(cases, false, {80});
}

TEST(GeneratedAttention, Masks) {
  std::vector<ContractCase> cases;
  const Dims q{2, 3, 17, 32}, k{2, 3, 40, 32};
  for (const Dims& mask : {Dims{2, 1, 1, 40}, Dims{17, 40}, Dims{2, 3, 17, 40}, Dims{3, 1, 40}}) {
    for (DType type : {F16, F32, DType::BOOL}) {
      cases.push_back(
          {"Attention", {}, {{F16, q}, {F16, k}, {F16, k}, {type, mask}}, {"attention2x1x32", "attention1x4x16"}, q});
    }
  }
  check_contracts(cases, false, {80});
}

TEST(GeneratedAttention, Causal) {
  std::vector<ContractCase> cases;
  for (int64_t length : {17, 100}) {
    const Dims dims{1, length, 64};
    Attributes attrs = heads(2, 2, true);
    attrs.set("scale", 0.3f);
    cases.push_back({"Attention", attrs, {{F16, dims}, {F16, dims}, {F16, dims}}, kEveryTile, dims});
  }
  check_contracts(cases);
}

TEST(GeneratedAttention, ScalesOfEitherSign) {
  std::vector<ContractCase> cases;
  const Dims q{1, 2, 20, 32}, k{1, 2, 37, 32};
  for (float scale : {0.5f, 0.0f, -0.25f}) {
    for (bool masked : {false, true}) {
      Attributes attrs;
      attrs.set("scale", scale);
      ContractCase c{"Attention", attrs, {{F16, q}, {F16, k}, {F16, k}}, {"attention2x1x16", "attention1x2x16"}, q};
      if (masked) c.inputs.push_back({F32, {20, 37}});
      cases.push_back(c);
    }
  }
  check_contracts(cases);
}

// Q, K and V from the same rows, from rows with tokens first, and the result turned.
TEST(GeneratedAttention, PartsOfRows) {
  std::vector<ContractCase> cases;
  for (const std::vector<int64_t>& first :
       std::vector<std::vector<int64_t>>{{0, 0, 0, 0}, {1, 1, 1, 1}, {0, 1, 0, 1}}) {
    const auto dims = [&](size_t i, int64_t tokens, int64_t width) {
      return first[i] != 0 ? Dims{tokens, 3, width} : Dims{3, tokens, width};
    };
    Attributes attrs = heads(4, 2);
    attrs.set("head_size", int64_t{16});
    attrs.set("starts", std::vector<int64_t>{8, 64, 0});
    attrs.set("tokens_first", first);
    cases.push_back({"deepjit.Attention",
                     attrs,
                     {{F16, dims(0, 20, 136)}, {F16, dims(1, 37, 136)}, {F16, dims(2, 37, 44)}, {F32, {3, 1, 1, 37}}},
                     {"attention2x1x16", "attention1x2x16"},
                     dims(3, 20, 64)});
  }
  check_contracts(cases, false, {80});
}

TEST(GeneratedAttention, SaysWhyThereIsNoKernel) {
  const Dims dims{1, 8, 64}, odd{1, 8, 20};
  const auto reason = [](const ContractCase& c) { return nvrtc_gpu::offer_contract(make_case(c)->shape).reason; };
  EXPECT_EQ(reason({"Attention", heads(2, 2), {{F32, dims}, {F32, dims}, {F32, dims}}, {}, dims}),
            "it is not generated for float32");
  EXPECT_EQ(reason({"Attention", heads(2, 2), {{F16, odd}, {F16, odd}, {F16, odd}}, {}, odd}),
            "heads have 10 elements");
}

TEST(GeneratedAttention, TilesAreText) {
  EXPECT_EQ(AttentionTile::parse("attention2x4x32").warps_k, 4);
  for (const char* bad : {"attention", "attention2x4x31", "attention0x1x16", "attention2x4x32x"}) {
    EXPECT_THROW(AttentionTile::parse(bad), Error) << bad;
  }
}

}  // namespace
}  // namespace deepjit
