// Slice: ONNX's clamping rules, and the same rules on symbolic dims.
#include <numeric>

#include "op_test_util.h"
#include "ops/shape/movement.h"

namespace deepjit {

namespace {

// x[start:end:step] of x = 0 .. n-1.
std::vector<int64_t> sliced(int64_t n, int64_t start, int64_t end, int64_t step) {
  std::vector<int64_t> x(static_cast<size_t>(n));
  std::iota(x.begin(), x.end(), 0);
  return run_op("Slice", {}, {i64({n}, x), i64({1}, {start}), i64({1}, {end}), i64({1}, {0}), i64({1}, {step})})[0]
      .to_i64();
}

std::string length_of(const std::string& dim, const std::string& start, const std::string& end, int64_t step = 1) {
  const auto out = slice_length(Dim::parse(dim), Dim::parse(start), Dim::parse(end), step);
  return out ? out->to_string() : "unknown";
}

}  // namespace

TEST(Slice, NegativeSteps) {
  using Values = std::vector<int64_t>;
  EXPECT_EQ(sliced(10, 9, 0, -1), (Values{9, 8, 7, 6, 5, 4, 3, 2, 1}));
  EXPECT_EQ(sliced(20, 19, 0, -3), (Values{19, 16, 13, 10, 7, 4, 1}));
  EXPECT_EQ(sliced(10, -1, -100, -4), (Values{9, 5, 1}));
  EXPECT_EQ(sliced(10, 9, INT64_MIN + 1, -1), (Values{9, 8, 7, 6, 5, 4, 3, 2, 1, 0}));
  EXPECT_EQ(sliced(10, INT64_MAX, INT64_MIN, -1), (Values{9, 8, 7, 6, 5, 4, 3, 2, 1, 0}));
  EXPECT_EQ(sliced(10, 0, 5, -1), Values{});
  EXPECT_EQ(sliced(3, 2, INT64_MIN, INT64_MIN), Values{2});
}

TEST(Slice, PositiveSteps) {
  using Values = std::vector<int64_t>;
  EXPECT_EQ(sliced(5, 0, INT64_MAX, 2), (Values{0, 2, 4}));
  EXPECT_EQ(sliced(5, -3, -1, 1), (Values{2, 3}));
  EXPECT_EQ(sliced(5, INT64_MIN, 2, 1), (Values{0, 1}));
  EXPECT_EQ(sliced(5, 7, 9, 1), Values{});
  EXPECT_EQ(sliced(5, 1, INT64_MAX, INT64_MAX), Values{1});
  EXPECT_EQ(sliced(0, 0, INT64_MAX, 1), Values{});
}

TEST(Slice, SeveralAxes) {
  const Tensor in = f32({2, 3, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  const Tensor out =
      run_op("Slice", {}, {in, i64({2}, {2, 1}), i64({2}, {-100, 2}), i64({2}, {1, -1}), i64({2}, {-2, 1})})[0];
  expect_equal(out, f32({2, 2, 1}, {6, 2, 12, 8}));
  expect_equal(run_op("Slice", {}, {in, i32({1}, {1}), i32({1}, {2})})[0], f32({1, 3, 2}, {7, 8, 9, 10, 11, 12}));
  EXPECT_EQ(error_code_of([&] {
              run_op("Slice", {}, {in, i64({1}, {0}), i64({1}, {1}), i64({1}, {0}), i64({1}, {0})});
            }),
            Code::RUN_VALUE);
  EXPECT_EQ(error_code_of([&] {
              run_op("Slice", {}, {in, i64({2}, {1, 1}), i64({2}, {2, 2}), i64({2}, {0, 0})});
            }),
            Code::RUN_VALUE);
}

TEST(Slice, SymbolicDimsStayExact) {
  EXPECT_EQ(length_of("N", "0", "9223372036854775807"), "N");
  EXPECT_EQ(length_of("N+1", "0", "-1"), "N");
  EXPECT_EQ(length_of("N+1", "1", "9223372036854775807"), "N");
  EXPECT_EQ(length_of("N", "1", "2147483647"), Dim::parse("max(N-1,0)").to_string());
  EXPECT_EQ(length_of("N", "0", "-1"), Dim::parse("max(N-1,0)").to_string());
  EXPECT_EQ(length_of("N", "0", "5"), Dim::parse("min(N,5)").to_string());
  EXPECT_EQ(length_of("N", "-5", "2147483647"), Dim::parse("min(N,5)").to_string());
  EXPECT_EQ(length_of("N*2", "0", "2147483647", 2), "N");
  EXPECT_EQ(length_of("N", "-1", "-2147483648", -1), "N");
  EXPECT_EQ(length_of("512", "0", "S"), Dim::parse("min(S,512)").to_string());
  EXPECT_EQ(length_of("S", "0", "S"), "S");
  EXPECT_EQ(length_of("N", "0", "S-1"), "unknown");
}

TEST(Slice, SymbolicLengthsAgreeWithConcreteOnes) {
  const std::vector<int64_t> bounds = {INT64_MIN, INT32_MIN, -4, -3, -2, -1, 0, 1, 2, 3, 5, INT32_MAX, INT64_MAX};
  for (int64_t step : {1, 2, 3, -1, -2, -3}) {
    for (int64_t start : bounds) {
      for (int64_t end : bounds) {
        const auto length = slice_length(Dim::symbol("N"), start, end, step);
        ASSERT_TRUE(length.has_value()) << start << ":" << end << ":" << step;
        for (int64_t n = 0; n <= 6; ++n) {
          EXPECT_EQ(length->evaluate([&](const std::string&) { return std::optional<int64_t>(n); }),
                    resolve_slice(n, start, end, step).length)
              << start << ":" << end << ":" << step << " of " << n << ": " << length->to_string();
        }
      }
    }
  }
}

TEST(Slice, SymbolicBoundsAgreeWithConcreteOnes) {
  for (int64_t step : {1, 2}) {
    for (const char* start : {"0", "2", "-2", "S"}) {
      for (const char* end : {"3", "-1", "E", "S+2"}) {
        const auto length = slice_length(Dim::symbol("N"), Dim::parse(start), Dim::parse(end), step);
        ASSERT_TRUE(length.has_value()) << start << ":" << end;
        for (int64_t n = 0; n <= 5; ++n) {
          for (int64_t s = 0; s <= 6; ++s) {
            const auto lookup = [&](const std::string& name) -> std::optional<int64_t> {
              return name == "N" ? n : name == "S" ? s : 4;
            };
            const int64_t from = *Dim::parse(start).evaluate(lookup);
            const int64_t to = *Dim::parse(end).evaluate(lookup);
            EXPECT_EQ(length->evaluate(lookup), resolve_slice(n, from, to, step).length)
                << start << ":" << end << " N=" << n << " S=" << s;
          }
        }
      }
    }
  }
}

TEST(Slice, ShapeRuleAndValues) {
  const InferInput x(DType::FLOAT32, {"N", "3", "W"});
  EXPECT_EQ(infer_op("Slice", {}, {x, i64({1}, {1}), i64({1}, {3}), i64({1}, {-2})}).type(), "float32[N,2,W]");
  // Only the axis with an unknown bound loses its size.
  const InferResult partly = infer_op("Slice", {}, {x, {DType::INT64, {"1"}}, i64({1}, {3}), i64({1}, {2})});
  EXPECT_EQ(partly.types[0].shape[0].to_string(), "N");
  EXPECT_TRUE(partly.types[0].shape[2].is_symbol());
  EXPECT_NE(partly.types[0].shape[2].to_string(), "W");
  const InferInput shape = known_values({"N", "3", "H", "W"});
  EXPECT_EQ(infer_op("Slice", {}, {shape, i64({1}, {2}), i64({1}, {INT64_MAX})}).value(), "H,W");
  EXPECT_EQ(
      infer_op("Slice", {}, {shape, i64({1}, {-1}), i64({1}, {INT64_MIN}), i64({1}, {0}), i64({1}, {-2})}).value(),
      "W,3");
}

}  // namespace deepjit
