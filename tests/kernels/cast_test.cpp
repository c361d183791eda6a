// Cast between all element types, and the small float formats.
#include "base/small_types.h"
#include "op_test_util.h"

namespace deepjit {

namespace {

Tensor cast(const Tensor& x, DType to, bool saturate = true) {
  return run_op("Cast", {{"to", static_cast<int64_t>(to)}, {"saturate", int64_t{saturate}}}, {x}).at(0);
}

std::vector<int> bytes_of(const Tensor& t) { return {t.as<uint8_t>(), t.as<uint8_t>() + t.count()}; }

constexpr DType kFloat8[] = {DType::FLOAT8E4M3FN, DType::FLOAT8E4M3FNUZ, DType::FLOAT8E5M2, DType::FLOAT8E5M2FNUZ};

struct Rounded {
  float value;
  int up, down, nearest, strict;  // strict: nearest without saturation
};

}  // namespace

TEST(Cast, Float4) {
  const Tensor all = u8({16}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15});
  const Tensor coded(DType::FLOAT4E2M1, all.dims(), all.view().data, std::make_shared<Tensor>(all));
  const Tensor values = cast(coded, DType::FLOAT32);
  expect_equal(values, f32({16}, {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6}));
  EXPECT_EQ(bytes_of(cast(values, DType::FLOAT4E2M1)), bytes_of(all));
  // Ties go to the even neighbour; everything outside ends at 6, with or without `saturate`.
  const Tensor x = f32({8}, {0.25f, 0.75f, 2.5f, 5, -5.1f, 1e9f, -INFINITY, std::nanf("")});
  const std::vector<int> expected = {0, 2, 4, 6, 15, 7, 15, 0};
  EXPECT_EQ(bytes_of(cast(x, DType::FLOAT4E2M1)), expected);
  EXPECT_EQ(bytes_of(cast(x, DType::FLOAT4E2M1, false)), expected);
}

TEST(Cast, E8m0RoundsAsAsked) {
  const Rounded cases[] = {
      {1, 127, 127, 127, 127},
      {1.25f, 128, 127, 127, 127},
      {1.5f, 128, 127, 128, 128},
      {0.124f, 124, 123, 124, 124},
      {0, 0, 0, 0, 255},
      {0x1p-127f, 0, 0, 0, 0},
      {0x1.8p-127f, 1, 0, 1, 1},
      {0x1p-140f, 0, 0, 0, 255},
      {3e38f, 254, 254, 254, 255},
      {INFINITY, 254, 254, 254, 255},
      {std::nanf(""), 255, 255, 255, 255},
  };
  const auto as_e8m0 = [](float value, const char* mode, bool saturate) {
    const AttrList attrs = {{"to", static_cast<int64_t>(DType::FLOAT8E8M0)},
                            {"round_mode", std::string(mode)},
                            {"saturate", int64_t{saturate}}};
    return bytes_of(run_op("Cast", attrs, {f32({1}, {value})}).at(0)).at(0);
  };
  for (const Rounded& c : cases) {
    EXPECT_EQ(as_e8m0(c.value, "up", true), c.up) << c.value;
    EXPECT_EQ(as_e8m0(c.value, "down", true), c.down) << c.value;
    EXPECT_EQ(as_e8m0(c.value, "nearest", true), c.nearest) << c.value;
    EXPECT_EQ(as_e8m0(c.value, "nearest", false), c.strict) << c.value;
  }
  EXPECT_THROW(as_e8m0(1, "even", true), Error);
}

TEST(Cast, PackedIntegersKeepTheLowBits) {
  const Tensor x = i32({7}, {-3, -2, -1, 0, 1, 2, 3});
  expect_equal(cast(cast(x, DType::INT2), DType::INT32), i32({7}, {1, -2, -1, 0, 1, -2, -1}));
  expect_equal(cast(cast(x, DType::UINT2), DType::INT32), i32({7}, {1, 2, 3, 0, 1, 2, 3}));
  expect_equal(cast(cast(i32({3}, {-9, 8, 7}), DType::INT4), DType::FLOAT32), f32({3}, {7, -8, 7}));
}

TEST(Cast, PackedTypesHaveNoArithmetic) {
  for (DType dtype : {DType::INT2, DType::UINT2, DType::INT4, DType::UINT4, DType::FLOAT4E2M1, DType::FLOAT8E8M0}) {
    EXPECT_THROW(infer_op("Add", {}, {{dtype, {"2"}}, {dtype, {"2"}}}), Error) << dtype_name(dtype);
    EXPECT_THROW(infer_op("Relu", {}, {{dtype, {"2"}}}), Error) << dtype_name(dtype);
    EXPECT_THROW(infer_op("BitwiseNot", {}, {{dtype, {"2"}}}), Error) << dtype_name(dtype);
  }
}

// Said by the shape rule, so that the build fails and not the first run.
TEST(Cast, SmallTypesAreRefusedWhereNothingIsComputedWithThem) {
  const AttrList window = {{"kernel_shape", std::vector<int64_t>{1, 1}}, {"size", int64_t{1}}};
  const auto refusal = [](const std::string& op, const AttrList& attrs, const std::vector<InferInput>& inputs) {
    try {
      infer_op(op, attrs, inputs);
    } catch (const Error& e) {
      return e.code();
    }
    return Code::OK;
  };
  for (DType dtype : {DType::INT2, DType::UINT4, DType::FLOAT4E2M1, DType::FLOAT8E8M0, DType::FLOAT8E4M3FN}) {
    const InferInput image(dtype, {"1", "2", "3", "3"});
    for (const char* op :
         {"Softmax", "LogSoftmax", "Hardmax", "LRN", "LpNormalization", "MeanVarianceNormalization", "MaxPool",
          "AveragePool", "LpPool", "GlobalAveragePool", "GlobalMaxPool", "ReduceMax", "ArgMax", "Det"}) {
      EXPECT_EQ(refusal(op, window, {image}), Code::TYPE) << op << " of " << dtype_name(dtype);
    }
    for (const char* op : {"MatMul", "Conv", "ConvTranspose", "LayerNormalization", "RMSNormalization", "GridSample"}) {
      EXPECT_EQ(refusal(op, {}, {image, image}), Code::TYPE) << op << " of " << dtype_name(dtype);
    }
    const InferInput matrix(dtype, {"3", "3"});
    EXPECT_EQ(refusal("Gemm", {}, {matrix, matrix}), Code::TYPE) << dtype_name(dtype);
    EXPECT_EQ(refusal("Einsum", {{"equation", std::string("ij,jk->ik")}}, {matrix, matrix}), Code::TYPE);
  }
  EXPECT_EQ(refusal("MatMul", {}, {{DType::INT8, {"2", "2"}}, {DType::INT8, {"2", "2"}}}), Code::TYPE);
  EXPECT_EQ(refusal("MaxPool", window, {{DType::INT8, {"1", "1", "2", "2"}}}), Code::OK);
}

TEST(Cast, FloatToBoolIsTrueForNanAndDenormals) {
  const Tensor x = f32({5}, {std::nanf(""), 1e-40f, -0.0f, 0, 2});
  expect_equal(cast(x, DType::BOOL), bools({5}, {1, 1, 0, 0, 1}));
  expect_equal(cast(f64({2}, {1e-310, 0}), DType::BOOL), bools({2}, {1, 0}));
  expect_equal(cast(bools({2}, {1, 0}), DType::FLOAT32), f32({2}, {1, 0}));
}

TEST(Cast, FloatToIntegerTruncates) {
  const Tensor x = f32({4}, {-1.9f, -0.5f, 0.9f, 100.7f});
  expect_equal(cast(x, DType::INT32), i32({4}, {-1, 0, 0, 100}));
  expect_equal(cast(x, DType::INT64), i64({4}, {-1, 0, 0, 100}));
  expect_equal(cast(x, DType::INT8), i8({4}, {-1, 0, 0, 100}));
  expect_equal(cast(f64({1}, {9007199254740993.0}), DType::INT64), i64({1}, {9007199254740992}));
  const Tensor big = make_tensor<uint64_t>(DType::UINT64, {1}, std::vector<uint64_t>{18446744073709551615u});
  expect_equal(cast(big, DType::FLOAT32), f32({1}, {18446744073709551616.0f}));
}

TEST(Cast, IntegerToIntegerWraps) {
  expect_equal(cast(i32({3}, {300, -1, 127}), DType::UINT8), u8({3}, {44, 255, 127}));
  expect_equal(cast(i64({1}, {INT64_C(1) << 40}), DType::INT32), i32({1}, {0}));
}

TEST(Cast, HalfTypesRoundOnceToEven) {
  expect_equal(cast(f32({2}, {1.0f + 0x1p-11f, 65520}), DType::FLOAT16), f16({2}, {1, INFINITY}));
  // Just above a tie of float16: rounding to float first would make it a tie.
  const Tensor x = f64({2}, {1 + 0x1p-11 + 0x1p-40, -(1 + 0x1p-11 + 0x1p-40)});
  expect_equal(cast(x, DType::FLOAT16), f16({2}, {1 + 0x1p-10f, -1 - 0x1p-10f}));
  expect_equal(cast(f16({2}, {0.5f, 65504}), DType::BFLOAT16), bf16({2}, {0.5f, 65504}));
}

TEST(Cast, LongTensorsCrossBlocks) {
  std::vector<int64_t> values;
  for (int64_t i = 0; i < 2000; ++i) values.push_back(i % 120);
  expect_equal(cast(i64({2000}, values), DType::INT8), i8({2000}, values));
  expect_equal(cast(cast(i8({2000}, values), DType::FLOAT16), DType::INT64), i64({2000}, values));
}

TEST(Cast, Float8E4M3FnSaturation) {
  const Tensor x = f32({6}, {448, 1000, std::nanf(""), INFINITY, -1000, -INFINITY});
  EXPECT_EQ(bytes_of(cast(x, DType::FLOAT8E4M3FN)), (std::vector<int>{0x7e, 0x7e, 0x7f, 0x7e, 0xfe, 0xfe}));
  EXPECT_EQ(bytes_of(cast(x, DType::FLOAT8E4M3FN, false)), (std::vector<int>{0x7e, 0x7f, 0x7f, 0x7f, 0xff, 0xff}));
  EXPECT_EQ(bytes_of(cast(x, DType::FLOAT8E4M3FNUZ, false)), (std::vector<int>{0x80, 0x80, 0x80, 0x80, 0x80, 0x80}));
  const Tensor wide = f32({4}, {57344, 1e6f, INFINITY, -0.0f});
  EXPECT_EQ(bytes_of(cast(wide, DType::FLOAT8E5M2)), (std::vector<int>{0x7b, 0x7b, 0x7b, 0x80}));
  EXPECT_EQ(bytes_of(cast(wide, DType::FLOAT8E5M2, false)), (std::vector<int>{0x7b, 0x7c, 0x7c, 0x80}));
  EXPECT_EQ(bytes_of(cast(wide, DType::FLOAT8E5M2FNUZ)), (std::vector<int>{0x7f, 0x7f, 0x7f, 0x00}));
}

TEST(Cast, EveryFloat8ValueSurvivesTheRoundTrip) {
  for (DType dtype : kFloat8) {
    for (int bits = 0; bits < 256; ++bits) {
      const float value = small_float_to_float(dtype, static_cast<uint8_t>(bits));
      if (std::isnan(value)) continue;
      EXPECT_EQ(float_to_small_float(dtype, value, false), bits) << dtype_name(dtype);
    }
  }
}

TEST(Cast, Float8RoundsToTheNearestNeighbour) {
  for (DType dtype : kFloat8) {
    for (int bits = 0; bits < 0x7a; ++bits) {
      const float low = small_float_to_float(dtype, static_cast<uint8_t>(bits));
      const float high = small_float_to_float(dtype, static_cast<uint8_t>(bits + 1));
      const float middle = low + (high - low) / 2;
      EXPECT_EQ(float_to_small_float(dtype, std::nextafter(middle, 0.0f), true), bits) << dtype_name(dtype) << low;
      EXPECT_EQ(float_to_small_float(dtype, std::nextafter(middle, 1e9f), true), bits + 1) << dtype_name(dtype) << low;
      EXPECT_EQ(float_to_small_float(dtype, middle, true), bits + (bits & 1)) << dtype_name(dtype) << low;
    }
  }
}

TEST(Cast, FourBitIntegersFillOneByteEach) {
  EXPECT_EQ(bytes_of(cast(f32({3}, {-8, 7, -1}), DType::INT4)), (std::vector<int>{0xf8, 7, 0xff}));
  EXPECT_EQ(bytes_of(cast(u8({3}, {15, 3, 16}), DType::UINT4)), (std::vector<int>{15, 3, 0}));
  const Tensor int4 = make_tensor<int8_t>(DType::INT4, {2}, std::vector<int>{-8, 7});
  expect_equal(cast(int4, DType::FLOAT32), f32({2}, {-8, 7}));
}

TEST(Cast, LikeAndBits) {
  expect_equal(run_op("CastLike", {}, {f32({2}, {1.5f, 2}), i32({1}, {0})}).at(0), i32({2}, {1, 2}));
  expect_equal(run_op("BitCast", {{"to", int64_t{6}}}, {f32({1}, {1})}).at(0), i32({1}, {0x3f800000}));
  EXPECT_EQ(error_code_of([] { run_op("BitCast", {{"to", int64_t{7}}}, {f32({1}, {1})}); }), Code::TYPE);
  EXPECT_EQ(error_code_of([] { run_op("Cast", {{"to", int64_t{99}}}, {f32({1}, {1})}); }), Code::ATTRIBUTE);
}

TEST(Cast, ShapeValuesSurvive) {
  const AttrList to_int32 = {{"to", static_cast<int64_t>(DType::INT32)}};
  EXPECT_EQ(infer_op("Cast", to_int32, {known_values({"N", "5"})}).value(), "N,5");
  EXPECT_EQ(infer_op("Cast", to_int32, {InferInput(i64({1}, {INT64_C(1) << 40}))}).value(), "unknown");
  EXPECT_EQ(infer_op("Cast", {{"to", int64_t{1}}}, {known_values({"N"})}).value(), "unknown");
}

}  // namespace deepjit
