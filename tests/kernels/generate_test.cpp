// Constants, ranges, windows, one-hot, random tensors and losses.
#include <algorithm>
#include <numeric>

#include "op_test_util.h"

namespace deepjit {

namespace {

Tensor run1(const std::string& name, const std::vector<Tensor>& inputs, const AttrList& attrs = {}) {
  return run_op(name, attrs, inputs).at(0);
}

}  // namespace

TEST(Generate, ConstantTakesEveryValueAttribute) {
  expect_equal(run1("Constant", {}, {{"value", f32({2}, {1, 2})}}), f32({2}, {1, 2}));
  expect_equal(run1("Constant", {}, {{"value_int", int64_t{7}}}), i64({}, {7}));
  expect_equal(run1("Constant", {}, {{"value_float", 1.5f}}), f32({}, {1.5f}));
  expect_equal(run1("Constant", {}, {{"value_ints", std::vector<int64_t>{3, 4}}}), i64({2}, {3, 4}));
  expect_equal(run1("Constant", {}, {{"value_floats", std::vector<float>{3, 4}}}), f32({2}, {3, 4}));
  const Tensor text = run1("Constant", {}, {{"value_string", std::string("abc")}});
  EXPECT_EQ(*text.as<std::string>(), "abc");
  EXPECT_EQ(error_code_of([] { run1("Constant", {}); }), Code::ATTRIBUTE);
  EXPECT_EQ(infer_op("Constant", {{"value_ints", std::vector<int64_t>{3, 4}}}, {}).value(), "3,4");
}

TEST(Generate, ConstantOfShape) {
  expect_equal(run1("ConstantOfShape", {i64({2}, {1, 3})}), f32({1, 3}, {0, 0, 0}));
  expect_equal(run1("ConstantOfShape", {i64({1}, {2})}, {{"value", i64({1}, {5})}}), i64({2}, {5, 5}));
  expect_equal(run1("ConstantOfShape", {i64({0}, {})}, {{"value", i32({1}, {5})}}), i32({}, {5}));
  expect_equal(run1("ConstantOfShape", {i64({2}, {0, 3})}), f32({0, 3}, {}));
  EXPECT_EQ(infer_op("ConstantOfShape", {}, {known_values({"N", "4"})}).type(), "float32[N,4]");
  EXPECT_EQ(error_code_of([] { run1("ConstantOfShape", {i64({1}, {-1})}); }), Code::SHAPE_MISMATCH);
}

TEST(Generate, Range) {
  expect_equal(run1("Range", {i64({}, {3}), i64({}, {9}), i64({}, {3})}), i64({2}, {3, 6}));
  expect_equal(run1("Range", {i32({}, {10}), i32({}, {4}), i32({}, {-2})}), i32({3}, {10, 8, 6}));
  expect_equal(run1("Range", {i64({}, {3}), i64({}, {3}), i64({}, {1})}), i64({0}, {}));
  expect_close(run1("Range", {f32({}, {1}), f32({}, {2}), f32({}, {0.3f})}), f32({4}, {1, 1.3f, 1.6f, 1.9f}));
  EXPECT_EQ(error_code_of([] { run1("Range", {i64({}, {1}), i64({}, {3}), i64({}, {0})}); }), Code::RUN_VALUE);
  InferInput n(DType::INT64, {});
  n.values = {{Dim::symbol("N")}};
  const InferInput zero(scalar_i64(0)), one(scalar_i64(1)), two(scalar_i64(2));
  EXPECT_EQ(infer_op("Range", {}, {zero, n, one}).type(), "int64[N]");
  EXPECT_EQ(infer_op("Range", {}, {n, zero, InferInput(scalar_i64(-1))}).type(), "int64[N]");
  EXPECT_EQ(infer_op("Range", {}, {zero, InferInput(DType::INT64, {}), two}).type(), "int64[?0]");
}

TEST(Generate, EyeLike) {
  expect_equal(run1("EyeLike", {i32({2, 3}, {9, 9, 9, 9, 9, 9})}, {{"k", int64_t{1}}}),
               i32({2, 3}, {0, 1, 0, 0, 0, 1}));
  expect_equal(run1("EyeLike", {i32({3, 2}, {9, 9, 9, 9, 9, 9})}, {{"k", int64_t{-1}}, {"dtype", int64_t{1}}}),
               f32({3, 2}, {0, 0, 1, 0, 0, 1}));
  expect_equal(run1("EyeLike", {f16({1, 1}, {3})}, {{"k", int64_t{5}}}), f16({1, 1}, {0}));
}

TEST(Generate, Windows) {
  expect_close(run1("HannWindow", {i32({}, {4})}), f32({4}, {0, 0.5f, 1, 0.5f}));
  expect_close(run1("HannWindow", {i64({}, {5})}, {{"periodic", int64_t{0}}}), f32({5}, {0, 0.5f, 1, 0.5f, 0}));
  expect_close(run1("HammingWindow", {i64({}, {2})}), f32({2}, {4 / 46.0f, 1}));
  expect_close(run1("BlackmanWindow", {i64({}, {2})}, {{"output_datatype", int64_t{11}}}), f64({2}, {0, 1}), 1e-15);
  expect_close(run1("HannWindow", {i64({}, {1})}, {{"periodic", int64_t{0}}}), f32({1}, {0}));
}

TEST(Generate, OneHot) {
  const Tensor values = f32({2}, {0, 5});
  expect_equal(run1("OneHot", {i64({3}, {0, -1, 7}), i64({}, {3}), values}), f32({3, 3}, {5, 0, 0, 0, 0, 5, 0, 0, 0}));
  expect_equal(run1("OneHot", {i64({2}, {1, 0}), i64({1}, {3}), values}, {{"axis", int64_t{0}}}),
               f32({3, 2}, {0, 5, 5, 0, 0, 0}));
  expect_equal(run1("OneHot", {f32({1, 2}, {1, 0}), f32({}, {2}), values}, {{"axis", int64_t{1}}}),
               f32({1, 2, 2}, {0, 5, 5, 0}));
  EXPECT_EQ(infer_op("OneHot", {}, {{DType::INT64, {"N"}}, InferInput(scalar_i64(10)), {DType::INT32, {"2"}}}).type(),
            "int32[N,10]");
}

TEST(Random, SeedRepeatsAndMomentsFit) {
  const AttrList attrs = {{"shape", std::vector<int64_t>{20000}}, {"seed", 3.0f}, {"mean", 2.0f}, {"scale", 3.0f}};
  const Tensor normal = run1("RandomNormal", {}, attrs);
  EXPECT_TRUE(normal.same_as(run1("RandomNormal", {}, attrs)));
  double sum = 0, squares = 0;
  for (double v : normal.to_f64()) sum += v, squares += v * v;
  const double mean = sum / 20000;
  EXPECT_NEAR(mean, 2, 0.1);
  EXPECT_NEAR(std::sqrt(squares / 20000 - mean * mean), 3, 0.1);

  const Tensor uniform = run1("RandomUniformLike", {f64({1000}, std::vector<double>(1000))}, {{"low", -1.0f}});
  const std::vector<double> u = uniform.to_f64();
  EXPECT_GE(*std::min_element(u.begin(), u.end()), -1);
  EXPECT_LT(*std::max_element(u.begin(), u.end()), 1);
  EXPECT_NEAR(std::accumulate(u.begin(), u.end(), 0.0) / 1000, 0, 0.1);
  EXPECT_NEAR(std::inner_product(u.begin(), u.end(), u.begin(), 0.0) / 1000, 1.0 / 3, 0.05);
  const AttrList free = {{"shape", std::vector<int64_t>{100}}};
  EXPECT_FALSE(run1("RandomUniform", {}, free).same_as(run1("RandomUniform", {}, free)));
}

TEST(Random, BernoulliAndMultinomialFollowTheirProbabilities) {
  const Tensor p = f32({3000}, std::vector<float>(3000, 0.25f));
  const Tensor draws = run1("Bernoulli", {p}, {{"dtype", int64_t{9}}, {"seed", 1.0f}});
  int64_t ones = 0;
  for (int64_t v : draws.to_i64()) ones += v;
  EXPECT_NEAR(static_cast<double>(ones) / 3000, 0.25, 0.04);
  EXPECT_TRUE(draws.same_as(run1("Bernoulli", {p}, {{"dtype", int64_t{9}}, {"seed", 1.0f}})));
  EXPECT_FALSE(draws.same_as(run1("Bernoulli", {p}, {{"dtype", int64_t{9}}, {"seed", 2.0f}})));
  expect_equal(run1("Bernoulli", {f32({2}, {0, 1})}), f32({2}, {0, 1}));

  const Tensor logits = f32({2, 3}, {std::log(0.7f), std::log(0.3f), -INFINITY, -INFINITY, -INFINITY, 0});
  const Tensor picks = run1("Multinomial", {logits}, {{"sample_size", int64_t{2000}}, {"seed", 1.0f}});
  const std::vector<int64_t> v = picks.to_i64();
  EXPECT_NEAR(static_cast<double>(std::count(v.begin(), v.begin() + 2000, 0)) / 2000, 0.7, 0.04);
  EXPECT_EQ(std::count(v.begin(), v.begin() + 2000, 2), 0);
  EXPECT_EQ(std::count(v.begin() + 2000, v.end(), 2), 2000);
}

TEST(Loss, NegativeLogLikelihood) {
  const Tensor x = f32({2, 3}, {-1, -2, -3, -4, -5, -6});
  const Tensor target = i64({2}, {0, 2});
  expect_close(run1("NegativeLogLikelihoodLoss", {x, target}), f32({}, {3.5f}));
  expect_close(run1("NegativeLogLikelihoodLoss", {x, target}, {{"reduction", std::string("none")}}), f32({2}, {1, 6}));
  expect_close(run1("NegativeLogLikelihoodLoss", {x, target}, {{"reduction", std::string("sum")}}), f32({}, {7}));
  expect_close(run1("NegativeLogLikelihoodLoss", {x, target, f32({3}, {2, 1, 1})}), f32({}, {8 / 3.0f}));
  expect_close(run1("NegativeLogLikelihoodLoss", {x, target}, {{"ignore_index", int64_t{0}}}), f32({}, {6}));
  expect_close(run1("NegativeLogLikelihoodLoss", {f32({1, 2, 2}, {-1, -2, -3, -4}), i32({1, 2}, {1, 0})},
                    {{"reduction", std::string("none")}}),
               f32({1, 2}, {3, 2}));
  EXPECT_EQ(error_code_of([&] { run1("NegativeLogLikelihoodLoss", {x, i64({2}, {0, 3})}); }), Code::INDEX_RANGE);
  EXPECT_EQ(error_code_of([&] { run1("NegativeLogLikelihoodLoss", {x, i64({3}, {0, 1, 2})}); }), Code::SHAPE_MISMATCH);
}

TEST(Loss, SoftmaxCrossEntropy) {
  const Tensor x = f32({1, 2}, {1000, 999});
  const std::vector<Tensor> out = run_op("SoftmaxCrossEntropyLoss", {}, {x, i64({1}, {1})}, 2);
  expect_close(out[0], f32({}, {1.3132617f}));
  expect_close(out[1], f32({1, 2}, {-0.3132617f, -1.3132617f}));
}

}  // namespace deepjit
