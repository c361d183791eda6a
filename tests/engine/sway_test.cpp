// Values moved by what rounding might have made of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/reference/launch_sway.h"

namespace deepjit {
namespace {

std::vector<float> moved(std::vector<float> values, uint64_t seed) {
  const auto count = static_cast<int64_t>(values.size());
  Sway(seed).move({DType::FLOAT32, {count}, values.data()});
  return values;
}

TEST(Sway, MovesByAFewUnitsInTheLastPlace) {
  const std::vector<float> values(1000, 1.5f);
  int changed = 0;
  for (float v : moved(values, 1)) {
    EXPECT_LE(std::abs(v - 1.5f), 6.5f * 0x1p-23f);
    changed += v != 1.5f ? 1 : 0;
  }
  EXPECT_GT(changed, 700);
  EXPECT_EQ(moved(values, 1), moved(values, 1));
  EXPECT_NE(moved(values, 1), moved(values, 2));
}

TEST(Sway, WhatHasNoNeighboursStays) {
  const std::vector<float> values = {0.0f, -0.0f, INFINITY, -INFINITY};
  EXPECT_EQ(moved(values, 3), values);
  EXPECT_TRUE(std::isnan(moved({NAN}, 3)[0]));
  for (uint64_t seed = 0; seed < 50; ++seed) EXPECT_TRUE(std::isfinite(moved({3.4028235e38f}, seed)[0]));
}

TEST(Sway, DoublesMoveByTheirOwnUnits) {
  std::vector<double> values(100, 3.0);
  Sway(1).move({DType::FLOAT64, {100}, values.data()});
  EXPECT_LT(std::count(values.begin(), values.end(), 3.0), 40);
  for (double v : values) EXPECT_LE(std::abs(v - 3), 16 * 0x1p-52);
  int64_t whole = 7;
  Sway(1).move({DType::INT64, {1}, &whole});
  EXPECT_EQ(whole, 7);
}

}  // namespace
}  // namespace deepjit
