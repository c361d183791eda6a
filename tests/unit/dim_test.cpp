#include "base/dim.h"

#include <gtest/gtest.h>

namespace deepjit {

namespace {
const Dim N = Dim::symbol("N");
const Dim H = Dim::symbol("H");
}  // namespace

TEST(Dim, KeepsOneNormalForm) {
  EXPECT_EQ(N * 196 + 4, Dim(4) + 2 * N * 98);
  EXPECT_EQ(floordiv(H - 1, 2) + 1, floordiv(H + 1, 2));
  EXPECT_EQ((N + 1) * (N - 1), N * N - 1);
  EXPECT_EQ(floordiv(floordiv(H, 2), 2), floordiv(H, 4));
  EXPECT_EQ(N - N, Dim(0));
}

TEST(Dim, DividesExactly) {
  EXPECT_EQ(Dim::exact_div(N * H * 6, N * 3), H * 2);
  EXPECT_EQ(Dim::exact_div(N + H, N), std::nullopt);
  EXPECT_EQ(floordiv(N * 8, 4), N * 2);
  EXPECT_EQ(ceildiv(Dim(7), 2), Dim(4));
  EXPECT_EQ(floordiv(Dim(-7), 2), Dim(-4));
}

TEST(Dim, MinAndMaxUseThatSymbolsAreNotNegative) {
  EXPECT_EQ(max(N, Dim(0)), N);
  EXPECT_EQ(min(N + 3, N + 1), N + 1);
  EXPECT_EQ(max(N, Dim(1)).to_string(), "max(1,N)");
}

TEST(Dim, PrintsAndParsesBack) {
  for (const Dim& d : {N * 196, floordiv(H - 1, 2) + 1, max(N, Dim(1)) * H - 4, Dim(-3), floordiv(N, H), N * -2 + H}) {
    EXPECT_EQ(Dim::parse(d.to_string()), d) << d.to_string();
  }
  EXPECT_THROW(Dim::parse("N+"), Error);
  EXPECT_THROW(Dim::parse("99999999999999999999"), Error);
}

TEST(Dim, Evaluates) {
  const Dim d = floordiv(H * 3 + 1, 4) + max(N, Dim(5));
  auto lookup = [](const std::string& name) { return std::optional<int64_t>(name == "H" ? 9 : 2); };
  EXPECT_EQ(d.evaluate(lookup), 7 + 5);
}

}  // namespace deepjit
