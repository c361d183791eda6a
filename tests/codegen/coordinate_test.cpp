// Coordinates: sums, splits at a size, and whole walks.
#include "codegen/region/coordinate.h"

#include <gtest/gtest.h>

namespace deepjit {
namespace {

Coord along(int axis, const Dim& coef = 1) { return {{{axis, coef}}, {}, -1}; }

const Dim H = Dim::symbol("H"), W = Dim::symbol("W");

TEST(Coordinate, SumsMergeAxesAndOffsetsCancel) {
  const Coord sum = along(1) + along(0, W) + along(1, 2);
  ASSERT_EQ(sum.terms.size(), 2u);
  EXPECT_TRUE(sum.terms[0].coef == W);
  EXPECT_TRUE(sum.terms[1].coef == 3);
  EXPECT_EQ(shifted(shifted(sum, H), Dim(0) - H), sum);
  EXPECT_EQ(axes_of({sum, along(4)}), (std::vector<int>{0, 1, 4}));
}

TEST(Coordinate, DividesAMixedRadix) {
  // h * W + w, at W: h and w.
  const auto parts = divide(along(0, W) + along(1), W, {H, W});
  ASSERT_TRUE(parts && !parts->cut);
  EXPECT_EQ(parts->quotient, along(0));
  EXPECT_EQ(parts->rest, along(1));
}

TEST(Coordinate, AWalkPastTheSizeAsksForACut) {
  const auto parts = divide(along(0), W, {H * W});
  ASSERT_TRUE(parts && parts->cut);
  EXPECT_EQ(parts->cut->axis, 0);
  EXPECT_TRUE(parts->cut->inner == W);
}

TEST(Coordinate, NoDivisionWithoutAProof) {
  EXPECT_FALSE(divide(along(0), 4, {Dim(6)}));              // 6 is no multiple of 4
  EXPECT_FALSE(divide(along(0), W, {H}));                   // nothing is known of H and W
  EXPECT_FALSE(divide(shifted(along(0), 1), 4, {Dim(4)}));  // reaches 4
}

TEST(Coordinate, WalksWhole) {
  const std::vector<Dim> extents = {H, W};
  EXPECT_EQ(walks_whole(along(0, W) + along(1), H * W, extents), (std::vector<int>{0, 1}));
  EXPECT_EQ(walks_whole(along(1, H) + along(0), H * W, extents), (std::vector<int>{1, 0}));
  EXPECT_FALSE(walks_whole(along(0), H * W, extents));
  EXPECT_FALSE(walks_whole(along(0, 2), H, extents));
  EXPECT_FALSE(walks_whole(shifted(along(0), 1), H, extents));
}

}  // namespace
}  // namespace deepjit
