// Activations: values, NaN and attribute handling.
#include "op_test_util.h"

namespace deepjit {

namespace {

Tensor run1(const std::string& name, const std::vector<Tensor>& inputs, const AttrList& attrs = {}) {
  return run_op(name, attrs, inputs).at(0);
}

const float kNan = std::nanf("");

}  // namespace

TEST(Activation, ReluKeepsNan) {
  expect_equal(run1("Relu", {f32({4}, {-1, 0, 2, kNan})}), f32({4}, {0, 0, 2, kNan}));
  expect_equal(run1("Relu", {i32({2}, {-5, 5})}), i32({2}, {0, 5}));
  expect_equal(run1("Relu", {f16({2}, {-1, 3})}), f16({2}, {0, 3}));
}

TEST(Activation, ClipKeepsNanAndMaxWins) {
  const Tensor x = f32({4}, {-3, 0.5f, 7, kNan});
  expect_equal(run1("Clip", {x, f32({}, {-1}), f32({}, {1})}), f32({4}, {-1, 0.5f, 1, kNan}));
  expect_equal(run1("Clip", {x, f32({}, {5}), f32({}, {1})}), f32({4}, {1, 1, 1, kNan}));
  expect_equal(run1("Clip", {x, none(), f32({}, {1})}), f32({4}, {-3, 0.5f, 1, kNan}));
  expect_equal(run1("Clip", {x, f32({}, {0})}), f32({4}, {0, 0.5f, 7, kNan}));
  expect_equal(run1("Clip", {f32({2}, {INFINITY, -INFINITY})}), f32({2}, {INFINITY, -INFINITY}));
  expect_equal(run1("Clip", {i64({3}, {-5, 3, 9}), i64({}, {0}), i64({}, {6})}), i64({3}, {0, 3, 6}));
  EXPECT_EQ(infer_op("Clip", {}, {known_values({"N"}), InferInput(scalar_i64(0))}).value(), "N");
}

TEST(Activation, GeluBothForms) {
  const Tensor x = f32({4}, {-1, 0, 1, 3});
  expect_close(run1("Gelu", {x}), f32({4}, {-0.158655f, 0, 0.841345f, 2.995950f}), 1e-6);
  expect_close(run1("Gelu", {x}, {{"approximate", std::string("tanh")}}),
               f32({4}, {-0.158808f, 0, 0.841192f, 2.996363f}), 1e-6);
  EXPECT_EQ(error_code_of([&] { run1("Gelu", {x}, {{"approximate", std::string("fast")}}); }), Code::ATTRIBUTE);
}

TEST(Activation, PiecewiseFunctions) {
  const Tensor x = f32({4}, {-4, -1, 1, 4});
  expect_close(run1("LeakyRelu", {x}, {{"alpha", 0.1f}}), f32({4}, {-0.4f, -0.1f, 1, 4}));
  expect_close(run1("ThresholdedRelu", {x}, {{"alpha", 2.0f}}), f32({4}, {0, 0, 0, 4}));
  expect_close(run1("HardSigmoid", {x}), f32({4}, {0, 0.3f, 0.7f, 1}));
  expect_close(run1("HardSwish", {x}), f32({4}, {0, -1 / 3.0f, 2 / 3.0f, 4}));
  expect_close(run1("Shrink", {x}, {{"lambd", 1.5f}, {"bias", 1.0f}}), f32({4}, {-3, 0, 0, 3}));
  expect_equal(run1("Shrink", {i8({3}, {-4, 1, 4})}, {{"lambd", 1.5f}, {"bias", 1.5f}}), i8({3}, {-2, 0, 2}));
  expect_close(run1("Softsign", {x}), f32({4}, {-0.8f, -0.5f, 0.5f, 0.8f}));
}

TEST(Activation, ExponentialFunctions) {
  const Tensor x = f32({3}, {-1, 0, 2});
  const float em1 = std::expm1(-1.0f);
  expect_close(run1("Elu", {x}, {{"alpha", 2.0f}}), f32({3}, {2 * em1, 0, 2}));
  expect_close(run1("Selu", {x}), f32({3}, {1.0507010f * 1.6732632f * em1, 0, 2.1014020f}));
  expect_close(run1("Celu", {x}, {{"alpha", 2.0f}}), f32({3}, {2 * std::expm1(-0.5f), 0, 2}));
  expect_close(run1("Sigmoid", {x}), f32({3}, {0.26894142f, 0.5f, 0.88079708f}));
  expect_close(run1("Softplus", {x}), f32({3}, {0.31326169f, 0.69314718f, 2.12692801f}));
  expect_close(run1("Mish", {x}), f32({3}, {-0.30340146f, 0, 1.94395896f}));
  expect_close(run1("Swish", {x}), f32({3}, {-0.26894142f, 0, 1.76159416f}));
  expect_close(run1("Swish", {x}, {{"alpha", 0.5f}}), f32({3}, {-0.37754067f, 0, 1.46211716f}));
  expect_close(run1("Tanh", {x}), f32({3}, {-0.76159416f, 0, 0.96402758f}));
}

TEST(Activation, ExtremeInputsStayFinite) {
  const Tensor x = f32({4}, {-1000, 1000, -INFINITY, INFINITY});
  expect_equal(run1("Sigmoid", {x}), f32({4}, {0, 1, 0, 1}));
  expect_equal(run1("Tanh", {x}), f32({4}, {-1, 1, -1, 1}));
  expect_equal(run1("Softplus", {x}), f32({4}, {0, 1000, 0, INFINITY}));
  expect_equal(run1("Elu", {x}), f32({4}, {-1, 1000, -1, INFINITY}));
  expect_equal(run1("Erf", {x}), f32({4}, {-1, 1, -1, 1}));
  expect_equal(run1("Exp", {x}), f32({4}, {0, INFINITY, 0, INFINITY}));
  expect_close(run1("Log", {f32({4}, {INFINITY, 0, -1, 1e-40f})}),
               f32({4}, {INFINITY, -INFINITY, kNan, std::log(1e-40f)}), 1e-6);
  const Tensor nan = f32({1}, {kNan});
  for (const char* name : {"Sigmoid", "Tanh", "Softplus", "Elu", "Selu", "Celu", "Erf", "Exp", "Gelu", "Mish", "Swish",
                           "HardSigmoid", "HardSwish", "LeakyRelu", "ThresholdedRelu", "Softsign", "Log"}) {
    SCOPED_TRACE(name);
    expect_equal(run1(name, {nan}), nan);
  }
}

TEST(Activation, FloatFunctionsFollowTheLibraryOverTheirRange) {
  std::vector<float> x;
  for (int i = -4000; i <= 4000; ++i) x.push_back(static_cast<float>(i) * 0.025f);
  for (float v = 1e-30f; v < 1; v *= 3) x.insert(x.end(), {v, -v});
  const auto n = static_cast<int64_t>(x.size());
  const std::pair<const char*, double (*)(double)> functions[] = {
      {"Exp", std::exp},
      {"Tanh", std::tanh},
      {"Erf", std::erf},
      {"Sigmoid", [](double v) { return 1 / (1 + std::exp(-v)); }},
      {"Elu", [](double v) { return v < 0 ? std::expm1(v) : v; }},
      {"Softplus", [](double v) { return std::fmax(v, 0) + std::log1p(std::exp(-std::fabs(v))); }},
      {"Mish", [](double v) { return v * std::tanh(std::log1p(std::exp(v))); }},
      {"Log", [](double v) { return v > 0 ? std::log(v) : std::nan(""); }}};
  for (const auto& [name, f] : functions) {
    const Tensor out = run1(name, {f32({n}, x)});
    for (size_t i = 0; i < x.size(); ++i) {
      const double expected = f(static_cast<double>(x[i]));
      if (!(std::fabs(expected) < 3.4e38) || std::fabs(expected) < 1e-35) continue;
      const double error = std::fabs(static_cast<double>(out.as<float>()[i]) - expected) / std::fabs(expected);
      EXPECT_LT(error, 4e-7) << name << "(" << x[i] << ")";
    }
  }
}

TEST(Activation, PReluBroadcastsItsSlope) {
  expect_equal(run1("PRelu", {f32({1, 2, 2}, {-1, 2, -3, 4}), f32({2, 1}, {0.5f, 2})}),
               f32({1, 2, 2}, {-0.5f, 2, -6, 4}));
  EXPECT_EQ(error_code_of([] { run1("PRelu", {f32({2}, {1, 2}), f32({2, 2}, {1, 1, 1, 1})}); }), Code::SHAPE_MISMATCH);
}

TEST(Activation, DropoutIsIdentityAtInference) {
  const Tensor x = f32({2}, {1, 2});
  const std::vector<Tensor> out = run_op("Dropout", {}, {x, f32({}, {0.7f})}, 2);
  expect_equal(out[0], x);
  expect_equal(out[1], bools({2}, {1, 1}));
  expect_equal(run1("Dropout", {x, f32({}, {0}), scalar_bool(true)}), x);
  EXPECT_EQ(error_code_of([&] { run1("Dropout", {x, f32({}, {0.5f}), scalar_bool(true)}); }), Code::UNSUPPORTED_OP);
}

}  // namespace deepjit
