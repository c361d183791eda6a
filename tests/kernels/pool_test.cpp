#include <cmath>

#include "op_test_util.h"

namespace deepjit {

namespace {

using Ints = std::vector<int64_t>;

AttrList window(const Ints& kernel, const Ints& strides = {}, const Ints& pads = {}, bool ceil = false) {
  AttrList attrs{{"kernel_shape", kernel}};
  if (!strides.empty()) attrs.emplace_back("strides", strides);
  if (!pads.empty()) attrs.emplace_back("pads", pads);
  if (ceil) attrs.emplace_back("ceil_mode", int64_t{1});
  return attrs;
}

AttrList with(AttrList attrs, const std::string& name, const Attribute& value) {
  attrs.emplace_back(name, value);
  return attrs;
}

Tensor noise(const Dims& dims) {
  Tensor t(DType::FLOAT32, dims);
  for (int64_t i = 0; i < t.count(); ++i) t.as<float>()[i] = static_cast<float>((i * 37 + 11) % 101) - 50.0f;
  return t;
}

}  // namespace

TEST(MaxPool, SeesNegativeNumbersNotPadding) {
  const Tensor x = f32({1, 1, 2, 2}, {-1, -2, -3, -4});
  expect_equal(run_op("MaxPool", window({2, 2}, {1, 1}, {1, 1, 0, 0}), {x})[0], f32({1, 1, 2, 2}, {-1, -1, -1, -1}));
}

TEST(MaxPool, CeilModeDropsWindowsThatStartInTheEndPadding) {
  const Tensor x = noise({1, 1, 17, 17});
  EXPECT_EQ(run_op("MaxPool", window({2, 2}, {2, 2}, {1, 1, 1, 1}, true), {x})[0].dims(), (Dims{1, 1, 9, 9}));
  EXPECT_EQ(run_op("AveragePool", window({2, 2}, {2, 2}, {1, 1, 1, 1}, true), {x})[0].dims(), (Dims{1, 1, 9, 9}));
  // A window that hangs over the end without padding stays.
  expect_equal(run_op("MaxPool", window({2}, {2}, {}, true), {f32({1, 1, 3}, {1, 2, 3})})[0], f32({1, 1, 2}, {2, 3}));
}

TEST(Pool, CeilModeTakesAWindowLargerThanItsInput) {
  const Tensor x = f32({1, 1, 2}, {1, 3});
  expect_equal(run_op("MaxPool", window({3}, {3}, {}, true), {x})[0], f32({1, 1, 1}, {3}));
  expect_equal(run_op("AveragePool", window({3}, {3}, {}, true), {x})[0], f32({1, 1, 1}, {2}));
}

TEST(MaxPool, IndicesCountTheWholeTensorInEitherOrder) {
  const Tensor x = f32({1, 2, 2, 2}, {1, 5, 2, 3, 9, 0, 0, 9});
  const std::vector<Tensor> out = run_op("MaxPool", window({2, 2}), {x}, 2);
  expect_equal(out[0], f32({1, 2, 1, 1}, {5, 9}));
  expect_equal(out[1], i64({1, 2, 1, 1}, {1, 4}));  // the first of equal values
  const Tensor y = f32({1, 1, 2, 3}, {0, 0, 7, 0, 0, 0});
  expect_equal(run_op("MaxPool", with(window({2, 3}), "storage_order", int64_t{1}), {y}, 2)[1], i64({1, 1, 1, 1}, {4}));
}

TEST(MaxPool, DilationsNanAndBytes) {
  expect_equal(run_op("MaxPool", with(window({2}), "dilations", Ints{2}), {f32({1, 1, 4}, {4, 9, 1, 2})})[0],
               f32({1, 1, 2}, {4, 9}));
  const Tensor y = run_op("MaxPool", window({2}), {f32({1, 1, 3}, {NAN, 1, 2})})[0];
  EXPECT_TRUE(std::isnan(y.as<float>()[0]));
  EXPECT_EQ(y.as<float>()[1], 2);
  expect_equal(run_op("MaxPool", window({2}), {i8({1, 1, 3}, {-128, -100, 5})})[0], i8({1, 1, 2}, {-100, 5}));
  expect_equal(run_op("MaxPool", window({2}), {u8({1, 1, 3}, {0, 255, 5})})[0], u8({1, 1, 2}, {255, 255}));
}

TEST(Pool, ChannelsLastEqualsChannelsFirst) {
  const int64_t c = 5, h = 7, w = 6;
  const Tensor x = noise({2, c, h, w});
  Tensor last(DType::FLOAT32, {2, h, w, c});
  for (int64_t i = 0; i < x.count(); ++i) {
    last.as<float>()[((i / (c * h * w)) * h * w + i % (h * w)) * c + i / (h * w) % c] = x.as<float>()[i];
  }
  for (const std::string op : {"MaxPool", "AveragePool"}) {
    const AttrList attrs = window({3, 2}, {2, 1}, {1, 0, 1, 1}, true);
    const Tensor a = run_op(op, attrs, {x})[0];
    const Tensor b = run_op("deepjit." + op, with(attrs, "layout", std::string("NHWC")), {last})[0];
    const int64_t oh = a.dims()[2], ow = a.dims()[3];
    ASSERT_EQ(b.dims(), (Dims{2, oh, ow, c}));
    for (int64_t i = 0; i < a.count(); ++i) {
      const int64_t at = ((i / (c * oh * ow)) * oh * ow + i % (oh * ow)) * c + i / (oh * ow) % c;
      EXPECT_FLOAT_EQ(a.as<float>()[i], b.as<float>()[at]) << op << " " << i;
    }
  }
  const Tensor a = run_op("GlobalAveragePool", {}, {x})[0];
  const Tensor b = run_op("deepjit.GlobalAveragePool", {{"layout", std::string("NHWC")}}, {last})[0];
  EXPECT_EQ(b.dims(), (Dims{2, 1, 1, c}));
  for (int64_t i = 0; i < a.count(); ++i) EXPECT_NEAR(a.as<float>()[i], b.as<float>()[i], 1e-4);
}

TEST(AveragePool, DividesByCellsInRange) {
  const Tensor x = f32({1, 1, 3}, {3, 6, 9});
  const AttrList attrs = window({3}, {2}, {1, 1});
  expect_equal(run_op("AveragePool", attrs, {x})[0], f32({1, 1, 2}, {4.5f, 7.5f}));
  expect_equal(run_op("AveragePool", with(attrs, "count_include_pad", int64_t{1}), {x})[0], f32({1, 1, 2}, {3, 5}));
}

TEST(AveragePool, CeilWindowsCountRealPaddingOnly) {
  // k7 s3 p3 ceil on 9 ones: windows start at -3, 0, 3, 6; the last reaches 13, three cells are real padding (9..11).
  const Tensor x = f32({1, 1, 9}, std::vector<float>(9, 1));
  const AttrList attrs = window({7}, {3}, {3, 3}, true);
  expect_close(run_op("AveragePool", attrs, {x})[0], f32({1, 1, 4}, {1, 1, 1, 1}));
  expect_close(run_op("AveragePool", with(attrs, "count_include_pad", int64_t{1}), {x})[0],
               f32({1, 1, 4}, {4.0f / 7, 1, 6.0f / 7, 3.0f / 6}));
}

TEST(AveragePool, SameUpperAndHalves) {
  expect_equal(
      run_op("AveragePool", with(window({2}), "auto_pad", std::string("SAME_UPPER")), {f16({1, 1, 3}, {1, 2, 4})})[0],
      f16({1, 1, 3}, {1.5f, 3, 4}));
}

TEST(LpPool, Norms) {
  const Tensor x = f32({1, 1, 3}, {3, -4, 0});
  expect_close(run_op("LpPool", window({2}), {x})[0], f32({1, 1, 2}, {5, 4}));
  expect_close(run_op("LpPool", with(window({2}), "p", int64_t{1}), {x})[0], f32({1, 1, 2}, {7, 4}));
  expect_close(run_op("GlobalLpPool", {{"p", int64_t{3}}}, {x})[0], f32({1, 1, 1}, {std::cbrt(91.0f)}), 1e-5);
}

TEST(GlobalPool, AveragesAndMaxima) {
  const Tensor x = f32({1, 2, 1, 2}, {1, 2, -5, -7});
  expect_equal(run_op("GlobalAveragePool", {}, {x})[0], f32({1, 2, 1, 1}, {1.5f, -6}));
  expect_equal(run_op("GlobalMaxPool", {}, {x})[0], f32({1, 2, 1, 1}, {2, -5}));
}

TEST(MaxUnpool, PutsValuesBack) {
  const Tensor x = f32({1, 1, 2}, {5, 6});
  const Tensor at = i64({1, 1, 2}, {1, 2});
  expect_equal(run_op("MaxUnpool", window({2}, {2}), {x, at})[0], f32({1, 1, 4}, {0, 5, 6, 0}));
  expect_equal(run_op("MaxUnpool", window({2}, {2}), {x, at, i64({3}, {1, 1, 5})})[0], f32({1, 1, 5}, {0, 5, 6, 0, 0}));
  EXPECT_EQ(error_code_of([&] {
              run_op("MaxUnpool", window({2}, {2}), {x, i64({1, 1, 2}, {0, 9})});
            }),
            Code::INDEX_RANGE);
  EXPECT_EQ(error_code_of([&] {
              run_op("MaxUnpool", window({2}, {2}), {x, i64({1, 1, 1}, {0})});
            }),
            Code::SHAPE_MISMATCH);
}

TEST(Pool, KernelFarLargerThanTheImage) {
  const Tensor x = f32({1, 1, 3}, {1, 5, -2});
  const int64_t half = int64_t{1} << 29;
  const AttrList huge = window({2 * half}, {8}, {half, half});
  expect_equal(run_op("MaxPool", huge, {x})[0], f32({1, 1, 1}, {5}));
  expect_close(run_op("AveragePool", huge, {x})[0], f32({1, 1, 1}, {4.0f / 3}));
  expect_close(run_op("AveragePool", with(huge, "count_include_pad", int64_t{1}), {x})[0],
               f32({1, 1, 1}, {4.0f / static_cast<float>(2 * half)}));
  expect_close(run_op("LpPool", huge, {x})[0], f32({1, 1, 1}, {std::sqrt(30.0f)}));
}

TEST(Pool, ShapeRule) {
  const InferInput x(DType::FLOAT32, {"N", "C", "H", "W"});
  EXPECT_EQ(infer_op("MaxPool", window({3, 3}, {1, 1}, {1, 1, 1, 1}), {x}, 2).type(1), "int64[N,C,H,W]");
  EXPECT_EQ(infer_op("AveragePool", window({2, 2}, {2, 2}), {x}).type(),
            "float32[N,C," + Dim::parse("(H-2)//2+1").to_string() + "," + Dim::parse("(W-2)//2+1").to_string() + "]");
  EXPECT_EQ(infer_op("GlobalMaxPool", {}, {x}).type(), "float32[N,C,1,1]");
  const AttrList last{{"layout", std::string("NHWC")}};
  EXPECT_EQ(infer_op("deepjit.GlobalAveragePool", last, {x}).type(), "float32[N,1,1,W]");
  EXPECT_EQ(error_code_of([&] { infer_op("MaxPool", window({3}), {x}); }), Code::SHAPE_MISMATCH);
  EXPECT_EQ(error_code_of([&] { infer_op("MaxPool", {}, {x}); }), Code::SHAPE_MISMATCH);
}

}  // namespace deepjit
