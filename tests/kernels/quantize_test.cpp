// Quantization, and the integer products.
#include "op_test_util.h"

namespace deepjit {

namespace {

Tensor run1(const std::string& name, const std::vector<Tensor>& inputs, const AttrList& attrs = {}) {
  return run_op(name, attrs, inputs).at(0);
}

Tensor scale(float v) { return f32({}, {v}); }

}  // namespace

TEST(Quantize, TiesGoToEvenAndValuesSaturate) {
  const Tensor x = f32({4}, {0.25f, 0.75f, 1.25f, 1.75f});
  expect_equal(run1("QuantizeLinear", {x, scale(0.5f), u8({}, {0})}), u8({4}, {0, 2, 2, 4}));
  const Tensor wide = f32({4}, {-1000, -1, 1, 1000});
  expect_equal(run1("QuantizeLinear", {wide, scale(1), i8({}, {10})}), i8({4}, {-128, 9, 11, 127}));
  expect_equal(run1("QuantizeLinear", {wide, scale(1)}), u8({4}, {0, 0, 1, 255}));
  expect_equal(run1("QuantizeLinear", {wide, scale(0.01f), i16({}, {0})}), i16({4}, {-32768, -100, 100, 32767}));
}

TEST(Quantize, SoftmaxOfAOneHotDoesNotWrap) {
  const Tensor x = f32({2}, {1, 0});
  expect_equal(run1("QuantizeLinear", {x, scale(1 / 256.0f), i8({}, {-128})}), i8({2}, {127, -128}));
}

TEST(Quantize, AxisAndBlocks) {
  const Tensor x = f32({2, 3}, {1, 2, 3, 10, 20, 30});
  expect_equal(run1("QuantizeLinear", {x, f32({2}, {1, 10}), u8({2}, {0, 100})}, {{"axis", int64_t{0}}}),
               u8({2, 3}, {1, 2, 3, 101, 102, 103}));
  expect_equal(run1("QuantizeLinear", {x, f32({3}, {1, 2, 3}), u8({3}, {0, 1, 2})}), u8({2, 3}, {1, 2, 3, 10, 11, 12}));
  const AttrList blocks = {{"axis", int64_t{1}}, {"block_size", int64_t{2}}};
  const Tensor scales = f32({2, 2}, {1, 3, 10, 2});
  expect_equal(run1("QuantizeLinear", {x, scales, u8({2, 2}, {0, 1, 2, 3})}, blocks), u8({2, 3}, {1, 2, 2, 3, 4, 18}));
  EXPECT_EQ(error_code_of([&] { run1("QuantizeLinear", {x, f32({2}, {1, 1})}); }), Code::SHAPE_MISMATCH);
}

TEST(Quantize, DequantizePerTensorAxisAndBlock) {
  expect_equal(run1("DequantizeLinear", {u8({4}, {0, 3, 128, 255}), scale(2), u8({}, {128})}),
               f32({4}, {-256, -250, 0, 254}));
  const Tensor x = i8({2, 2}, {1, 2, 3, 4});
  expect_equal(run1("DequantizeLinear", {x, f32({2}, {1, 10}), i8({2}, {0, 1})}, {{"axis", int64_t{0}}}),
               f32({2, 2}, {1, 2, 20, 30}));
  expect_equal(run1("DequantizeLinear", {x, f32({2}, {1, 10}), i8({2}, {0, 1})}), f32({2, 2}, {1, 10, 3, 30}));
  expect_equal(run1("DequantizeLinear", {x, f32({1, 2}, {1, 10})}, {{"axis", int64_t{0}}, {"block_size", int64_t{2}}}),
               f32({2, 2}, {1, 20, 3, 40}));
  expect_equal(run1("DequantizeLinear", {i32({2}, {INT32_MAX, INT32_MIN}), scale(1), i32({}, {-1})}),
               f32({2}, {2147483648.0f, -2147483647.0f}));
  expect_equal(run1("DequantizeLinear", {x, f16({}, {0.5f})}), f16({2, 2}, {0.5f, 1, 1.5f, 2}));
}

TEST(Quantize, FourBitAndFloat8) {
  const Tensor x = f32({3}, {-20, 1, 20});
  const Tensor q4 = run1("QuantizeLinear", {x, scale(1)}, {{"output_dtype", static_cast<int64_t>(DType::INT4)}});
  EXPECT_EQ(q4.dtype(), DType::INT4);
  expect_equal(run1("DequantizeLinear", {q4, scale(1)}), f32({3}, {-8, 1, 7}));
  const Tensor q2 = run1("QuantizeLinear", {x, scale(1)}, {{"output_dtype", static_cast<int64_t>(DType::INT2)}});
  expect_equal(run1("DequantizeLinear", {q2, scale(1)}), f32({3}, {-2, 1, 1}));
  const Tensor u2 = run1("QuantizeLinear", {x, f32({3}, {1, 0.25f, 10})},
                         {{"output_dtype", static_cast<int64_t>(DType::UINT2)}, {"axis", int64_t{0}}});
  expect_equal(run1("DequantizeLinear", {u2, f32({3}, {1, 0.25f, 10})}, {{"axis", int64_t{0}}}),
               f32({3}, {0, 0.75f, 20}));
  const Tensor f4 = run1("QuantizeLinear", {f32({1, 4}, {-20, 1, 2.4f, 20}), f32({1, 2}, {2, 4})},
                         {{"output_dtype", static_cast<int64_t>(DType::FLOAT4E2M1)}, {"block_size", int64_t{2}}});
  expect_equal(run1("DequantizeLinear", {f4, f32({1, 2}, {2, 4})}, {{"block_size", int64_t{2}}}),
               f32({1, 4}, {-12, 1, 2, 16}));
  const Tensor q8 = run1("QuantizeLinear", {f32({2}, {1e6f, 3}), scale(2)},
                         {{"output_dtype", static_cast<int64_t>(DType::FLOAT8E4M3FN)}});
  expect_equal(run1("DequantizeLinear", {q8, scale(2)}), f32({2}, {896, 3}));
}

TEST(Quantize, ScalesOfE8m0) {
  const auto byte = std::make_shared<Tensor>(u8({}, {129}));  // 4
  const Tensor four(DType::FLOAT8E8M0, {}, byte->view().data, byte);
  const Tensor q = run1("QuantizeLinear", {f32({2}, {9, -22}), four, i8({}, {0})});
  expect_equal(q, i8({2}, {2, -6}));
  expect_equal(run1("DequantizeLinear", {q, four}, {{"output_dtype", int64_t{1}}}), f32({2}, {8, -24}));
  EXPECT_THROW(run1("DequantizeLinear", {q, four}), Error);  // the output cannot be E8M0
}

TEST(Quantize, Dynamic) {
  const std::vector<Tensor> out = run_op("DynamicQuantizeLinear", {}, {f32({3}, {-127, 128, 0.5f})}, 3);
  expect_equal(out[0], u8({3}, {0, 255, 127}));
  expect_equal(out[1], f32({}, {1}));
  expect_equal(out[2], u8({}, {127}));
  const std::vector<Tensor> zeros = run_op("DynamicQuantizeLinear", {}, {f32({2}, {0, 0})}, 3);
  expect_equal(zeros[0], u8({2}, {0, 0}));
}

TEST(Quantize, MatMulInteger) {
  const Tensor a = u8({2, 3}, {11, 7, 3, 10, 6, 2});
  const Tensor b = u8({3, 2}, {1, 4, 2, 5, 3, 6});
  expect_equal(run1("MatMulInteger", {a, b, u8({}, {12}), u8({}, {0})}), i32({2, 2}, {-38, -83, -44, -98}));
  expect_equal(run1("MatMulInteger", {a, b, u8({2}, {12, 10}), u8({2}, {0, 1})}), i32({2, 2}, {-38, -68, -32, -56}));
  expect_equal(run1("MatMulInteger", {i8({3}, {1, -2, 3}), i8({3}, {-4, 5, 6})}), i32({}, {4}));
  expect_equal(run1("MatMulInteger", {i8({2, 1, 2}, {1, 2, 3, 4}), i8({2, 1}, {5, 6})}), i32({2, 1, 1}, {17, 39}));
  expect_equal(run1("MatMulInteger", {u8({2, 0}, {}), u8({0, 1}, {})}), i32({2, 1}, {0, 0}));
}

TEST(Quantize, QLinearMatMul) {
  const Tensor a = u8({1, 2}, {130, 126});    // (a - 128) * 0.5 = 1, -1
  const Tensor b = u8({2, 2}, {4, 8, 2, 2});  // b * 0.25 = 1, 2, 0.5, 0.5
  const std::vector<Tensor> inputs = {a,           scale(0.5f), u8({}, {128}), b, scale(0.25f),
                                      u8({}, {0}), scale(0.1f), u8({}, {10})};
  expect_equal(run1("QLinearMatMul", inputs), u8({1, 2}, {15, 25}));
}

TEST(Quantize, ConvInteger) {
  const Tensor x = u8({1, 1, 3, 3}, {2, 3, 4, 5, 6, 7, 8, 9, 10});
  const Tensor w = u8({1, 1, 2, 2}, {1, 1, 1, 1});
  expect_equal(run1("ConvInteger", {x, w, u8({}, {1})}), i32({1, 1, 2, 2}, {12, 16, 24, 28}));
  const AttrList padded = {{"pads", std::vector<int64_t>{1, 1, 1, 1}}};
  expect_equal(run1("ConvInteger", {x, w, u8({}, {1})}, padded),
               i32({1, 1, 4, 4}, {1, 3, 5, 3, 5, 12, 16, 9, 11, 24, 28, 15, 7, 15, 17, 9}));
  const AttrList strided = {{"strides", std::vector<int64_t>{2, 2}}, {"pads", std::vector<int64_t>{1, 1, 1, 1}}};
  expect_equal(run1("ConvInteger", {x, w, u8({}, {1})}, strided), i32({1, 1, 2, 2}, {1, 5, 11, 28}));
}

TEST(Quantize, QLinearConvPerChannelAndGroups) {
  const Tensor x = u8({1, 2, 1, 2}, {129, 130, 131, 132});  // 1 2 | 3 4 around 128
  const Tensor w = i8({2, 1, 1, 1}, {2, 4});
  const std::vector<Tensor> inputs = {
      x,           scale(1),    u8({}, {128}),    w, f32({2}, {0.5f, 0.25f}), i8({2}, {0, 0}),
      scale(0.5f), u8({}, {5}), i32({2}, {2, -4})};
  // channel 0: (1 2)*2 + 2 = 4 6, times 0.5/0.5; channel 1: (3 4)*4 - 4 = 8 12, times 0.25/0.5
  expect_equal(run1("QLinearConv", inputs, {{"group", int64_t{2}}}), u8({1, 2, 1, 2}, {9, 11, 9, 11}));
}

TEST(Quantize, ShapeRulesStaySymbolic) {
  EXPECT_EQ(infer_op("QuantizeLinear", {}, {{DType::FLOAT32, {"N", "3"}}, {DType::FLOAT32, {}}}).type(), "uint8[N,3]");
  EXPECT_EQ(infer_op("MatMulInteger", {}, {{DType::UINT8, {"N", "S", "4"}}, {DType::INT8, {"4", "8"}}}).type(),
            "int32[N,S,8]");
  EXPECT_EQ(
      infer_op("ConvInteger", {}, {{DType::UINT8, {"N", "3", "H", "W"}}, {DType::INT8, {"8", "3", "3", "3"}}}).type(),
      "int32[N,8,H-2,W-2]");
}

}  // namespace deepjit
