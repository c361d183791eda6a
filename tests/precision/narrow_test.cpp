#include "precision/narrow.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "precision/precision.h"

namespace deepjit {
namespace {

TEST(Narrow, WhatIsLost) {
  const auto of = [](std::vector<float> x, DType type = DType::FLOAT16) {
    return narrow(Tensor::from<float>(DType::FLOAT32, Dims{static_cast<int64_t>(x.size())}, std::span<const float>(x)),
                  type);
  };
  EXPECT_EQ(what_is_lost(of({1, 0.1f, -65504}), DType::FLOAT16), "");
  EXPECT_EQ(what_is_lost(of({1, 65510}), DType::FLOAT16), "a constant of 6.6e+04 does not fit float16");
  EXPECT_EQ(what_is_lost(of({1e-9f, -2e-9f}), DType::FLOAT16), "a constant of at most 2e-09 loses 1e+02% in float16");
  EXPECT_EQ(what_is_lost(of({1e-9f, -2e-9f, 1}), DType::FLOAT16), "");
  EXPECT_EQ(what_is_lost(of({1e-9f, 1e30f}, DType::BFLOAT16), DType::BFLOAT16), "");
  EXPECT_TRUE(of({3.4028234e38f}, DType::BFLOAT16).overflows);
  EXPECT_FALSE(of({INFINITY, NAN}).overflows);
  EXPECT_EQ(of({0, 0}).relative_loss, 0);
}

TEST(Precision, Names) {
  for (const char* name : {"fp32", "tf32", "fp16", "bf16"}) EXPECT_EQ(precision_name(parse_precision(name)), name);
  EXPECT_THROW(parse_precision("fp12"), Error);
  EXPECT_EQ(narrow_type(Precision::TF32), std::nullopt);
}

}  // namespace
}  // namespace deepjit
