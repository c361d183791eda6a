#include "base/dim.h"

#include <gtest/gtest.h>

namespace deepjit {

namespace {
const Dim N = Dim::symbol("N");
const Dim H = Dim::symbol("H");
template <typename F>
Code code_of(F&& action) {
  try {
    action();
    return Code::OK;
  } catch (const Error& e) {
    return e.code();
  }
}

TEST(DimLimits, ExpressionsThatExplode) {
  const Dim n = Dim::symbol("N");
  EXPECT_EQ(code_of([&] {
              Dim square = n;
              for (int i = 0; i < 40; ++i) square = square * square;
            }),
            Code::LIMIT);
  EXPECT_EQ(code_of([&] {
              Dim product = 1;
              for (int i = 0; i < 40; ++i) product = product * (Dim::symbol("a" + std::to_string(i)) + 1);
            }),
            Code::LIMIT);
  EXPECT_EQ(code_of([&] {
              Dim nested = n;
              for (int i = 0; i < 100'000; ++i) nested = min(nested * 2 - 7, n);
            }),
            Code::LIMIT);
}

TEST(DimLimits, TextThatNestsTooDeep) {
  EXPECT_EQ(code_of([] { Dim::parse(std::string(100'000, '(') + "N"); }), Code::PARSE);
  EXPECT_EQ(code_of([] { Dim::parse(std::string(100'001, '-') + "N"); }), Code::OK);
  std::string text = "N";
  for (int i = 0; i < 1000; ++i) text = "min(" + text + ",M)";
  EXPECT_NE(code_of([&] { Dim::parse(text); }), Code::OK);
}

TEST(DimLimits, TheLargestNumbers) {
  const Dim n = Dim::symbol("N");
  EXPECT_EQ(Dim::exact_div(Dim(INT64_MIN) + n * 2, Dim(2)), Dim(INT64_MIN / 2) + n);
  EXPECT_EQ(code_of([&] { Dim::exact_div(Dim(INT64_MIN), Dim(-1)); }), Code::SHAPE_OVERFLOW);
  EXPECT_EQ(code_of([&] { floordiv(Dim(INT64_MIN) + n, Dim(3)).to_string(); }), Code::SHAPE_OVERFLOW);
  // What to_string prints, parse reads: no magnitude is past INT64_MAX.
  EXPECT_EQ(code_of([&] { n* Dim(INT64_MIN); }), Code::SHAPE_OVERFLOW);
  EXPECT_EQ(code_of([&] { n* Dim(INT64_MIN / 2) + n* Dim(INT64_MIN / 2); }), Code::SHAPE_OVERFLOW);
  EXPECT_EQ(Dim::parse((n * Dim(INT64_MIN + 1)).to_string()), n * Dim(INT64_MIN + 1));
}

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
