#include <cmath>

#include "op_test_util.h"

namespace deepjit {

namespace {

using Ints = std::vector<int64_t>;
constexpr float kInf = std::numeric_limits<float>::infinity();

}  // namespace

TEST(BatchNorm, InferenceUsesTheGivenStatistics) {
  const Tensor x = f32({1, 2, 2}, {1, 2, 3, 4});
  const std::vector<Tensor> in{x, f32({2}, {2, 1}), f32({2}, {0, 1}), f32({2}, {1, 3}), f32({2}, {4, 1})};
  expect_close(run_op("BatchNormalization", {{"epsilon", 0.0f}}, in)[0], f32({1, 2, 2}, {0, 1, 1, 2}));
}

TEST(BatchNorm, TrainingUsesTheBatchAndUpdatesTheRunningStatistics) {
  const Tensor x = f32({2, 1, 2}, {1, 3, 5, 7});  // mean 4, population variance 5
  const std::vector<Tensor> in{x, f32({1}, {1}), f32({1}, {0}), f32({1}, {10}), f32({1}, {1})};
  const std::vector<Tensor> out =
      run_op("BatchNormalization", {{"training_mode", int64_t{1}}, {"momentum", 0.75f}, {"epsilon", 0.0f}}, in, 3);
  const float s = std::sqrt(5.0f);
  expect_close(out[0], f32({2, 1, 2}, {-3 / s, -1 / s, 1 / s, 3 / s}));
  expect_close(out[1], f32({1}, {8.5f}));
  expect_close(out[2], f32({1}, {2}));
  EXPECT_EQ(error_code_of([&] {
              infer_op("BatchNormalization", {}, {x, in[1], in[2], in[3], in[4]}, 3);
            }),
            Code::ARITY);
}

TEST(GroupNorm, GroupsAndInstances) {
  const Tensor x = f32({1, 4, 1}, {1, 3, 10, 30});
  const Tensor scale = f32({4}, {1, 1, 2, 1}), bias = f32({4}, {0, 0, 0, 5});
  expect_close(run_op("GroupNormalization", {{"num_groups", int64_t{2}}, {"epsilon", 0.0f}}, {x, scale, bias})[0],
               f32({1, 4, 1}, {-1, 1, -2, 6}));
  expect_close(run_op("InstanceNormalization", {{"epsilon", 0.0f}},
                      {f32({1, 2, 2}, {1, 3, 5, 9}), f32({2}, {1, 2}), f32({2}, {0, 1})})[0],
               f32({1, 2, 2}, {-1, 1, -1, 3}));
  EXPECT_EQ(error_code_of([&] {
              run_op("GroupNormalization", {{"num_groups", int64_t{3}}}, {x, scale, bias});
            }),
            Code::SHAPE_MISMATCH);
}

TEST(LayerNorm, HalfPrecisionIsComputedInFloat) {
  // 4096 values of about 300: squares overflow float16.
  std::vector<float> values(4096);
  for (size_t i = 0; i < values.size(); ++i) values[i] = i % 2 == 0 ? 300.0f : -300.0f;
  const Tensor y =
      run_op("LayerNormalization", {}, {f16({1, 4096}, values), f16({4096}, std::vector<float>(4096, 1))})[0];
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_NEAR(static_cast<float>(y.as<float16>()[i]), i % 2 == 0 ? 1 : -1, 1e-3);
  }
}

// Squares that float32 does not hold make an infinite variance, as in ONNX's definition; float64 holds them.
TEST(LayerNorm, StatisticsHaveTheRangeOfTheirType) {
  const std::vector<float> large{1e20f, -1e20f, 3e19f, 0};
  const Tensor ones = f32({4}, {1, 1, 1, 1});
  for (const char* op : {"LayerNormalization", "RMSNormalization"}) {
    expect_equal(run_op(op, {}, {f32({1, 4}, large), ones})[0], f32({1, 4}, {0, -0.0f, 0, 0}));
  }
  expect_equal(run_op("InstanceNormalization", {}, {f32({1, 1, 4}, large), f32({1}, {1}), f32({1}, {2})})[0],
               f32({1, 1, 4}, {2, 2, 2, 2}));
  const Tensor x = Tensor::from<double>(DType::FLOAT64, {1, 2}, std::vector<double>{1e20, -1e20});
  const Tensor scale = Tensor::from<double>(DType::FLOAT64, {2}, std::vector<double>{1, 1});
  EXPECT_NEAR(run_op("LayerNormalization", {}, {x, scale})[0].to_f64()[0], 1, 1e-12);
}

TEST(LayerNorm, ScaleOfAnyBroadcastableShape) {
  const Tensor x = f32({2, 2, 2}, {1, 3, 5, 9, -1, 1, 0, 4});  // each row normalizes to -1, 1
  const AttrList attrs{{"epsilon", 0.0f}};
  expect_close(run_op("LayerNormalization", attrs, {x, f32({1}, {2})})[0],
               f32({2, 2, 2}, {-2, 2, -2, 2, -2, 2, -2, 2}));
  expect_close(run_op("LayerNormalization", attrs, {x, f32({2, 1}, {2, 3}), f32({2}, {0, 1})})[0],
               f32({2, 2, 2}, {-2, 3, -3, 4, -2, 3, -3, 4}));
  expect_close(run_op("LayerNormalization", attrs, {x, f32({2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8})})[0],
               f32({2, 2, 2}, {-1, 2, -3, 4, -5, 6, -7, 8}));
  EXPECT_EQ(error_code_of([&] {
              run_op("LayerNormalization", {}, {f32({1, 1}, {1}), f32({2}, {1, 1})});
            }),
            Code::SHAPE_MISMATCH);
}

TEST(LayerNorm, StatisticsAreOutputs) {
  const Tensor x = f32({1, 2, 2}, {1, 3, 5, 7});
  const std::vector<Tensor> out =
      run_op("LayerNormalization", {{"axis", int64_t{1}}, {"epsilon", 0.0f}}, {x, f32({2, 2}, {1, 1, 1, 1})}, 3);
  expect_close(out[1], f32({1, 1, 1}, {4}));
  expect_close(out[2], f32({1, 1, 1}, {1 / std::sqrt(5.0f)}));
  EXPECT_EQ(
      infer_op("LayerNormalization", {}, {{DType::FLOAT16, {"N", "S", "64"}}, {DType::FLOAT16, {"64"}}}, 3).type(2),
      "float32[N,S,1]");
}

TEST(RmsNorm, DividesByTheRootMeanSquare) {
  expect_close(run_op("RMSNormalization", {{"epsilon", 0.0f}}, {f32({1, 2}, {3, 4}), f32({2}, {1, 2})})[0],
               f32({1, 2}, {3 / std::sqrt(12.5f), 8 / std::sqrt(12.5f)}));
}

TEST(LpNorm, ZeroVectorsStayZero) {
  const Tensor x = f32({2, 2}, {3, 4, 0, 0});
  expect_close(run_op("LpNormalization", {}, {x})[0], f32({2, 2}, {0.6f, 0.8f, 0, 0}));
  expect_close(run_op("LpNormalization", {{"p", int64_t{1}}, {"axis", int64_t{0}}}, {f32({2, 2}, {1, -2, -3, 2})})[0],
               f32({2, 2}, {0.25f, -0.5f, -0.75f, 0.5f}));
}

TEST(MeanVarianceNorm, OverTheGivenAxes) {
  const Tensor x = f32({2, 2}, {1, 10, 3, 30});
  expect_close(run_op("MeanVarianceNormalization", {{"axes", Ints{0}}}, {x})[0], f32({2, 2}, {-1, -1, 1, 1}));
  expect_close(run_op("MeanVarianceNormalization", {{"axes", Ints{-1}}}, {x})[0], f32({2, 2}, {-1, 1, -1, 1}));
}

TEST(Lrn, WindowOverChannels) {
  const AttrList attrs{{"size", int64_t{2}}, {"alpha", 2.0f}, {"beta", 1.0f}, {"bias", 1.0f}};
  // An even window reaches one channel further up: sums of squares are 1+4, 4+9, 9.
  expect_close(run_op("LRN", attrs, {f32({1, 3, 1}, {1, 2, 3})})[0], f32({1, 3, 1}, {1.0f / 6, 2.0f / 14, 3.0f / 10}));
}

TEST(Softmax, AnyAxisAndLargeValues) {
  const Tensor x = f32({2, 2}, {1000, 1000, 0, -kInf});
  expect_close(run_op("Softmax", {}, {x})[0], f32({2, 2}, {0.5f, 0.5f, 1, 0}));
  expect_close(run_op("Softmax", {{"axis", int64_t{0}}}, {f32({2, 1, 2}, {0, 5, 0, 5})})[0],
               f32({2, 1, 2}, {0.5f, 0.5f, 0.5f, 0.5f}));
  expect_close(run_op("LogSoftmax", {}, {f32({1, 2}, {0, 1000})})[0], f32({1, 2}, {-1000, 0}));
  EXPECT_TRUE(std::isnan(run_op("Softmax", {}, {f32({2}, {NAN, 1})})[0].as<float>()[1]));
  EXPECT_EQ(run_op("Softmax", {}, {Tensor(DType::FLOAT32, {0, 4})})[0].dims(), (Dims{0, 4}));
}

TEST(Norm, ShapeRulesPassShapesThrough) {
  const InferInput x(DType::FLOAT32, {"N", "8", "H", "W"}), c(DType::FLOAT32, {"8"});
  EXPECT_EQ(infer_op("BatchNormalization", {}, {x, c, c, c, c}).type(), "float32[N,8,H,W]");
  EXPECT_EQ(infer_op("InstanceNormalization", {}, {x, c, c}).type(), "float32[N,8,H,W]");
  EXPECT_EQ(error_code_of([&] {
              infer_op("InstanceNormalization", {}, {x, {DType::FLOAT32, {"7"}}, c});
            }),
            Code::SHAPE_MISMATCH);
  EXPECT_EQ(error_code_of([&] { infer_op("Softmax", {{"axis", int64_t{4}}}, {x}); }), Code::ATTRIBUTE);
}

}  // namespace deepjit
