// The Reduce family.
#include <limits>
#include <random>

#include "op_test_util.h"

namespace deepjit {

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
const AttrList kDrop = {{"keepdims", int64_t{0}}};
const char* const kAll[] = {"ReduceSum", "ReduceMean", "ReduceMax",    "ReduceMin",       "ReduceProd",
                            "ReduceL1",  "ReduceL2",   "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare"};

double by_definition(const std::string& op, const std::vector<double>& x) {
  double sum = 0, abs = 0, square = 0, exp = 0, product = 1, high = -kInf, low = kInf;
  for (double v : x) {
    sum += v;
    abs += std::fabs(v);
    square += v * v;
    exp += std::exp(v);
    product *= v;
    high = std::max(high, v);
    low = std::min(low, v);
  }
  if (op == "ReduceSum") return sum;
  if (op == "ReduceMean") return sum / static_cast<double>(x.size());
  if (op == "ReduceMax") return high;
  if (op == "ReduceMin") return low;
  if (op == "ReduceProd") return product;
  if (op == "ReduceL1") return abs;
  if (op == "ReduceL2") return std::sqrt(square);
  if (op == "ReduceLogSum") return std::log(sum);
  return op == "ReduceLogSumExp" ? std::log(exp) : square;
}

}  // namespace

TEST(Reduce, EveryOpOverEverySetOfAxesMatchesTheDefinition) {
  std::mt19937 random(7);
  std::uniform_real_distribution<float> uniform(0.5f, 1.5f);
  const Dims dims = {3, 5, 1, 37, 2};
  std::vector<float> values(static_cast<size_t>(dims.count()));
  for (float& v : values) v = uniform(random);
  const Tensor in = f32(dims, values);
  for (const std::string op : kAll) {
    for (int mask = 1; mask < 32; ++mask) {
      std::vector<int64_t> axes;
      Dims kept = dims;
      for (int d = 0; d < 5; ++d) {
        if (((mask >> d) & 1) == 0) continue;
        axes.push_back(d % 2 == 0 ? d : d - 5);
        kept[d] = 1;
      }
      std::vector<std::vector<double>> groups(static_cast<size_t>(kept.count()));
      const Dims from = dims.strides();
      const Dims to = kept.strides();
      for (int64_t i = 0; i < dims.count(); ++i) {
        int64_t at = 0;
        for (int d = 0; d < 5; ++d) at += kept[d] == 1 ? 0 : i / from[d] % dims[d] * to[d];
        groups[static_cast<size_t>(at)].push_back(values[static_cast<size_t>(i)]);
      }
      std::vector<double> expected;
      for (const auto& group : groups) expected.push_back(by_definition(op, group));
      const Tensor out = run_op(op, {}, {in, i64({static_cast<int64_t>(axes.size())}, axes)})[0];
      SCOPED_TRACE(op + " mask " + std::to_string(mask));
      expect_close(out, make_tensor<float>(DType::FLOAT32, kept, expected), 1e-5);
    }
  }
}

TEST(Reduce, AxesKeepdimsAndNoop) {
  const Tensor in = f32({2, 2}, {1, 2, 3, 4});
  expect_equal(run_op("ReduceSum", {}, {in})[0], f32({1, 1}, {10}));
  expect_equal(run_op("ReduceSum", kDrop, {in, i64({0}, {})})[0], f32({}, {10}));
  expect_equal(run_op("ReduceSum", kDrop, {in, i64({1}, {-1})})[0], f32({2}, {3, 7}));
  const AttrList noop = {{"noop_with_empty_axes", int64_t{1}}};
  expect_equal(run_op("ReduceSum", noop, {in, i64({0}, {})})[0], in);
  // Only the reduction is left out, not the square.
  expect_equal(run_op("ReduceSumSquare", noop, {in})[0], f32({2, 2}, {1, 4, 9, 16}));
  EXPECT_EQ(error_code_of([&] { run_op("ReduceSum", {}, {in, i64({1}, {2})}); }), Code::ATTRIBUTE);
}

TEST(Reduce, EmptyAxesGiveTheIdentity) {
  const Tensor in = f32({2, 0}, {});
  const Tensor axis = i64({1}, {1});
  expect_equal(run_op("ReduceMax", kDrop, {in, axis})[0], f32({2}, {-kInf, -kInf}));
  expect_equal(run_op("ReduceMin", kDrop, {in, axis})[0], f32({2}, {kInf, kInf}));
  expect_equal(run_op("ReduceSum", kDrop, {in, axis})[0], f32({2}, {0, 0}));
  expect_equal(run_op("ReduceProd", kDrop, {in, axis})[0], f32({2}, {1, 1}));
  expect_equal(run_op("ReduceLogSumExp", kDrop, {in, axis})[0], f32({2}, {-kInf, -kInf}));
  EXPECT_EQ(run_op("ReduceMax", kDrop, {in, i64({1}, {0})})[0].dims().to_string(), "[0]");
  expect_equal(run_op("ReduceMin", {}, {i32({0}, {})})[0], i32({1}, {std::numeric_limits<int32_t>::max()}));
  const Tensor flags = run_op("ReduceMin", {}, {bools({0}, {})})[0];
  EXPECT_EQ(flags.to_i64(), std::vector<int64_t>{1});
}

TEST(Reduce, SpecialValues) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  expect_equal(run_op("ReduceMax", {}, {f32({3}, {1, nan, 2})})[0], f32({1}, {nan}));
  expect_equal(run_op("ReduceMin", {}, {f32({2}, {nan, 2})})[0], f32({1}, {nan}));
  // exp(1000) overflows; the shifted sum does not.
  expect_close(run_op("ReduceLogSumExp", {}, {f32({2}, {1000, 1000})})[0], f32({1}, {1000.6931f}));
  expect_equal(run_op("ReduceLogSumExp", {}, {f32({2}, {-kInf, -kInf})})[0], f32({1}, {-kInf}));
  expect_equal(run_op("ReduceLogSumExp", {}, {f32({2}, {kInf, 0})})[0], f32({1}, {kInf}));
}

TEST(Reduce, SumsHaveTheRangeOfTheirType) {
  const Tensor large = f32({2}, {3e38f, 3e38f});
  for (const char* op : {"ReduceSum", "ReduceMean", "ReduceL1", "ReduceL2", "ReduceSumSquare"}) {
    expect_equal(run_op(op, {}, {large})[0], f32({1}, {kInf}));
  }
  expect_equal(run_op("ReduceMean", {}, {f32({2}, {-3e38f, -3e38f})})[0], f32({1}, {-kInf}));
  expect_close(run_op("ReduceMean", {}, {f16({2}, {6e4f, 6e4f})})[0], f16({1}, {6e4f}));  // summed in float32
}

TEST(Reduce, LongSumsStayAccurate) {
  const int64_t n = 1 << 20;
  const Tensor row = f32({n}, std::vector<float>(static_cast<size_t>(n), 0.1f));
  const double exact = static_cast<double>(0.1f) * static_cast<double>(n);
  EXPECT_NEAR(run_op("ReduceSum", {}, {row})[0].to_f64()[0], exact, exact * 1e-6);
  const Tensor column = run_op("ReduceSum", {}, {row.reshaped({n / 4, 4}), i64({1}, {0})})[0];
  EXPECT_NEAR(column.to_f64()[3], exact / 4, exact * 1e-6);
  // 4096 ones in float16: 2048 + 1 would stay 2048.
  const Tensor ones = f16({4096}, std::vector<float>(4096, 1));
  expect_equal(run_op("ReduceSum", {}, {ones})[0], f16({1}, {4096}));
  expect_equal(run_op("ReduceMean", {}, {ones})[0], f16({1}, {1}));
}

TEST(Reduce, Integers) {
  expect_equal(run_op("ReduceSum", {}, {i64({2}, {INT64_MAX, -1})})[0], i64({1}, {INT64_MAX - 1}));
  expect_equal(run_op("ReduceL1", {}, {i32({2}, {-3, 2})})[0], i32({1}, {5}));
  expect_equal(run_op("ReduceMean", {}, {i32({2}, {-3, 0})})[0], i32({1}, {-1}));
  expect_equal(run_op("ReduceProd", {}, {i32({3}, {-2, 3, 4})})[0], i32({1}, {-24}));
  expect_equal(run_op("ReduceMax", {}, {i8({20}, std::vector<int64_t>(20, -7))})[0], i8({1}, {-7}));
  expect_equal(run_op("ReduceMin", {}, {u8({3}, {9, 200, 8})})[0], u8({1}, {8}));
}

TEST(Reduce, ShapeRuleAndValues) {
  const InferInput x(DType::FLOAT32, {"N", "C", "W"});
  EXPECT_EQ(infer_op("ReduceMean", {}, {x, i64({1}, {-1})}).type(), "float32[N,C,1]");
  EXPECT_EQ(infer_op("ReduceMean", kDrop, {x, i64({2}, {0, 2})}).type(), "float32[C]");
  EXPECT_EQ(infer_op("ReduceMean", kDrop, {x, {DType::INT64, {"2"}}}).types[0].shape.rank(), 1);
  EXPECT_EQ(infer_op("ReduceMean", {}, {x, {DType::INT64, {"K"}}}).types[0].shape.rank(), 3);
  const InferInput shape = known_values({"N", "3", "W"});
  EXPECT_EQ(infer_op("ReduceProd", kDrop, {shape, i64({1}, {0})}).value(), Dim::parse("N*W*3").to_string());
  EXPECT_EQ(infer_op("ReduceSum", kDrop, {shape}).value(), Dim::parse("N+W+3").to_string());
  EXPECT_EQ(infer_op("ReduceMax", kDrop, {known_values({"N", "N+2"})}).value(), "N+2");
  EXPECT_EQ(infer_op("ReduceMin", {}, {i64({3}, {4, 2, 9})}).value(), "2");
}

}  // namespace deepjit
