#include <cmath>

#include "op_test_util.h"

namespace deepjit {

namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
const std::string kForward = "forward", kReverse = "reverse", kBoth = "bidirectional";

Tensor wave(const Dims& dims, float step) {
  Tensor t(DType::FLOAT32, dims);
  for (int64_t i = 0; i < t.count(); ++i) t.as<float>()[i] = std::sin(step * static_cast<float>(i + 1));
  return t;
}

// Reads x[i][j] of a [rows, columns] part that starts at `at`.
double at(const Tensor& t, int64_t offset) { return t.as<float>()[offset]; }

// The definition of LSTM with peepholes for one direction, batch n, in double.
std::vector<double> naive_lstm(const Tensor& x, const Tensor& w, const Tensor& r, const Tensor& b, const Tensor& p,
                               int64_t n, bool reverse) {
  const int64_t steps = x.dims()[0], batch = x.dims()[1], in = x.dims()[2], h = r.dims()[2];
  std::vector<double> state(static_cast<size_t>(h), 0), cell(static_cast<size_t>(h), 0), out;
  out.resize(static_cast<size_t>(steps * h));
  for (int64_t s = 0; s < steps; ++s) {
    const int64_t t = reverse ? steps - 1 - s : s;
    auto gate = [&](int64_t g, int64_t k) {
      const int64_t row = g * h + k;
      double sum = at(b, row) + at(b, 4 * h + row);
      for (int64_t i = 0; i < in; ++i) sum += at(x, (t * batch + n) * in + i) * at(w, row * in + i);
      for (int64_t i = 0; i < h; ++i) sum += state[static_cast<size_t>(i)] * at(r, row * h + i);
      return sum;
    };
    std::vector<double> next(static_cast<size_t>(h));
    for (int64_t k = 0; k < h; ++k) {
      double& c = cell[static_cast<size_t>(k)];
      const double input = sigmoid(gate(0, k) + at(p, k) * c), forget = sigmoid(gate(2, k) + at(p, 2 * h + k) * c);
      c = forget * c + input * std::tanh(gate(3, k));
      next[static_cast<size_t>(k)] = sigmoid(gate(1, k) + at(p, h + k) * c) * std::tanh(c);
    }
    state = next;
    std::copy(next.begin(), next.end(), out.begin() + t * h);
  }
  return out;
}

}  // namespace

TEST(Lstm, MatchesTheDefinitionWithPeepholes) {
  const int64_t steps = 4, batch = 3, in = 2, h = 5;
  const Tensor x = wave({steps, batch, in}, 0.7f), w = wave({1, 4 * h, in}, 0.3f), r = wave({1, 4 * h, h}, 0.9f);
  const Tensor b = wave({1, 8 * h}, 0.2f), p = wave({1, 3 * h}, 0.4f);
  for (const bool reverse : {false, true}) {
    const std::vector<Tensor> out =
        run_op("LSTM", {{"direction", reverse ? kReverse : kForward}}, {x, w, r, b, none(), none(), none(), p}, 3);
    for (int64_t n = 0; n < batch; ++n) {
      const std::vector<double> expected = naive_lstm(x, w, r, b, p, n, reverse);
      for (int64_t t = 0; t < steps; ++t) {
        for (int64_t k = 0; k < h; ++k) {
          EXPECT_NEAR(at(out[0], (t * batch + n) * h + k), expected[static_cast<size_t>(t * h + k)], 1e-6);
        }
      }
      const int64_t last = reverse ? 0 : steps - 1;
      for (int64_t k = 0; k < h; ++k) EXPECT_EQ(at(out[1], n * h + k), at(out[0], (last * batch + n) * h + k));
    }
  }
}

// One step from no state: the gates are the input's product alone, quantized as DynamicQuantizeLinear does.
TEST(Lstm, DynamicQuantizeLstmQuantizesItsInputAndState) {
  const int64_t batch = 2, in = 5, h = 3;
  const Tensor x = wave({2, batch, in}, 0.7f), w_scale = wave({1}, 0.02f), r_scale = wave({1}, 0.03f);
  Tensor w(DType::INT8, {1, 4 * h, in}), r(DType::INT8, {1, 4 * h, h});
  for (int64_t i = 0; i < w.count(); ++i) w.as<int8_t>()[i] = static_cast<int8_t>(i * 37 % 256 - 128);
  for (int64_t i = 0; i < r.count(); ++i) r.as<int8_t>()[i] = static_cast<int8_t>(i * 91 % 256 - 128);
  const Tensor zero = Tensor::from<int8_t>(DType::INT8, {1}, std::vector<int8_t>{5});
  const std::vector<Tensor> out =
      run_op("deepjit.DynamicQuantizeLSTM", {},
             {x, w, r, none(), none(), none(), none(), none(), w_scale, zero, r_scale, zero}, 3);
  const std::vector<Tensor> q = run_op("DynamicQuantizeLinear", {}, {x}, 3);
  const double scale = *q[1].as<float>() * at(w_scale, 0);
  const int zero_x = *q[2].as<uint8_t>();
  for (int64_t n = 0; n < batch; ++n) {
    for (int64_t k = 0; k < h; ++k) {
      auto gate = [&](int64_t g) {
        int64_t sum = 0;
        for (int64_t i = 0; i < in; ++i) {
          sum += (q[0].as<uint8_t>()[n * in + i] - zero_x) * (w.as<int8_t>()[(g * h + k) * in + i] - 5);
        }
        return static_cast<double>(sum) * scale;
      };
      const double cell = sigmoid(gate(0)) * std::tanh(gate(3));
      EXPECT_NEAR(at(out[0], n * h + k), sigmoid(gate(1)) * std::tanh(cell), 1e-6);
    }
  }
  // The second step differs from an exact state by its quantization, and by no more.
  Tensor real_w(DType::FLOAT32, w.dims()), real_r(DType::FLOAT32, r.dims());
  for (int64_t i = 0; i < w.count(); ++i) real_w.as<float>()[i] = at(w_scale, 0) * (w.as<int8_t>()[i] - 5);
  for (int64_t i = 0; i < r.count(); ++i) real_r.as<float>()[i] = at(r_scale, 0) * (r.as<int8_t>()[i] - 5);
  const std::vector<Tensor> real = run_op("LSTM", {}, {x, real_w, real_r}, 3);
  double apart = 0;
  for (int64_t i = 0; i < batch * h; ++i) apart = std::max(apart, std::fabs(at(out[1], i) - at(real[1], i)));
  EXPECT_GT(apart, 0);
  EXPECT_LT(apart, 0.05);
}

TEST(Lstm, BidirectionalIsBothDirectionsAndLayoutOnlyMovesAxes) {
  const int64_t steps = 3, batch = 2, in = 2, h = 2;
  const Tensor x = wave({steps, batch, in}, 0.7f), w = wave({2, 4 * h, in}, 0.3f), r = wave({2, 4 * h, h}, 0.9f);
  const std::vector<Tensor> both = run_op("LSTM", {{"direction", kBoth}}, {x, w, r}, 3);
  auto half = [](const Tensor& t, int64_t d) {
    Dims dims = t.dims();
    dims[0] = 1;
    Tensor out(DType::FLOAT32, dims);
    std::copy_n(t.as<float>() + d * out.count(), out.count(), out.as<float>());
    return out;
  };
  for (int64_t d = 0; d < 2; ++d) {
    const Tensor one = run_op("LSTM", {{"direction", d == 0 ? kForward : kReverse}}, {x, half(w, d), half(r, d)}, 1)[0];
    for (int64_t t = 0; t < steps; ++t) {
      for (int64_t i = 0; i < batch * h; ++i) {
        EXPECT_EQ(at(both[0], (t * 2 + d) * batch * h + i), at(one, t * batch * h + i));
      }
    }
  }
  Tensor turned(DType::FLOAT32, {batch, steps, in});
  for (int64_t t = 0; t < steps; ++t) {
    for (int64_t n = 0; n < batch; ++n) {
      std::copy_n(x.as<float>() + (t * batch + n) * in, in, turned.as<float>() + (n * steps + t) * in);
    }
  }
  const std::vector<Tensor> first = run_op("LSTM", {{"direction", kBoth}, {"layout", int64_t{1}}}, {turned, w, r}, 3);
  EXPECT_EQ(first[0].dims(), (Dims{batch, steps, 2, h}));
  for (int64_t t = 0; t < steps; ++t) {
    for (int64_t n = 0; n < batch; ++n) {
      for (int64_t i = 0; i < 2 * h; ++i) {
        EXPECT_EQ(at(first[0], (n * steps + t) * 2 * h + i), at(both[0], ((t * 2 + i / h) * batch + n) * h + i % h));
      }
    }
  }
  for (int64_t n = 0; n < batch; ++n) {
    for (int64_t i = 0; i < 2 * h; ++i) {
      EXPECT_EQ(at(first[2], n * 2 * h + i), at(both[2], (i / h * batch + n) * h + i % h));
    }
  }
}

TEST(Rnn, SequenceLengthsPadWithZerosAndReverseWithin) {
  // h = x + h: a running sum.
  const Tensor x = f32({3, 2, 1}, {1, 10, 2, 20, 3, 30});
  const Tensor one = f32({1, 1, 1}, {1});
  const Tensor lengths = i32({2}, {2, 3});
  const AttrList attrs{{"activations", std::vector<std::string>{"Affine"}}};
  std::vector<Tensor> out = run_op("RNN", attrs, {x, one, one, none(), lengths}, 2);
  expect_equal(out[0], f32({3, 1, 2, 1}, {1, 10, 3, 30, 0, 60}));
  expect_equal(out[1], f32({1, 2, 1}, {3, 60}));
  AttrList back = attrs;
  back.emplace_back("direction", kReverse);
  out = run_op("RNN", back, {x, one, one, none(), lengths, f32({1, 2, 1}, {100, 0})}, 2);
  expect_equal(out[0], f32({3, 1, 2, 1}, {103, 60, 102, 50, 0, 30}));
  expect_equal(out[1], f32({1, 2, 1}, {103, 60}));
  EXPECT_EQ(error_code_of([&] { run_op("RNN", attrs, {x, one, one, none(), i32({2}, {2, 4})}, 2); }), Code::RUN_VALUE);
}

TEST(Rnn, ActivationsTakeTheirParametersInOrder) {
  const Tensor x = f32({1, 1, 1}, {-2}), one = f32({1, 1, 1}, {1}), zero = f32({1, 1, 1}, {0});
  auto run = [&](const std::string& name, const AttrList& more) {
    AttrList attrs{{"activations", std::vector<std::string>{name}}};
    attrs.insert(attrs.end(), more.begin(), more.end());
    return at(run_op("RNN", attrs, {x, one, zero}, 1)[0], 0);
  };
  EXPECT_EQ(run("Relu", {}), 0);
  EXPECT_FLOAT_EQ(run("LeakyRelu", {}), -0.02);
  EXPECT_FLOAT_EQ(run("LeakyRelu", {{"activation_alpha", std::vector<float>{0.5f}}}), -1);
  EXPECT_FLOAT_EQ(run("HardSigmoid", {}), 0.1);
  EXPECT_FLOAT_EQ(
      run("Affine", {{"activation_alpha", std::vector<float>{3}}, {"activation_beta", std::vector<float>{1}}}), -5);
  EXPECT_FLOAT_EQ(run("Softsign", {}), -2.0 / 3);
  EXPECT_FLOAT_EQ(run("Affine", {{"clip", 0.5f}}), -0.5);
  EXPECT_EQ(error_code_of([&] { run("Magic", {}); }), Code::ATTRIBUTE);
}

TEST(Gru, ResetBeforeAndAfterTheLinearPart) {
  const double x = 0.5, h0 = 0.25;
  // Gates z, r, h: weights 1, 2, 3; recurrent 0.5, 0.6, 0.7; biases Wb 0.1, 0.2, 0.3 and Rb 0.01, 0.02, 0.03.
  const std::vector<Tensor> in{f32({1, 1, 1}, {0.5f}),
                               f32({1, 3, 1}, {1, 2, 3}),
                               f32({1, 3, 1}, {0.5f, 0.6f, 0.7f}),
                               f32({1, 6}, {0.1f, 0.2f, 0.3f, 0.01f, 0.02f, 0.03f}),
                               none(),
                               f32({1, 1, 1}, {0.25f})};
  const double z = sigmoid(x + 0.5 * h0 + 0.11), r = sigmoid(2 * x + 0.6 * h0 + 0.22);
  const double before = std::tanh(3 * x + 0.7 * (r * h0) + 0.33);
  const double after = std::tanh(3 * x + 0.3 + r * (0.7 * h0 + 0.03));
  EXPECT_NEAR(at(run_op("GRU", {}, in, 2)[1], 0), (1 - z) * before + z * h0, 1e-6);
  EXPECT_NEAR(at(run_op("GRU", {{"linear_before_reset", int64_t{1}}}, in, 2)[1], 0), (1 - z) * after + z * h0, 1e-6);
}

TEST(Rnn, ShapeRule) {
  const InferInput x(DType::FLOAT32, {"T", "N", "4"}), w(DType::FLOAT32, {"2", "20", "4"}),
      r(DType::FLOAT32, {"2", "20", "5"});
  const InferResult types = infer_op("LSTM", {{"direction", kBoth}, {"hidden_size", int64_t{5}}}, {x, w, r}, 3);
  EXPECT_EQ(types.type(0), "float32[T,2,N,5]");
  EXPECT_EQ(types.type(2), "float32[2,N,5]");
  EXPECT_EQ(error_code_of([&] { infer_op("LSTM", {}, {x, w, r}, 3); }), Code::SHAPE_MISMATCH);
  EXPECT_EQ(error_code_of([&] { infer_op("GRU", {{"direction", kBoth}}, {x, w, r}, 2); }), Code::SHAPE_MISMATCH);
}

}  // namespace deepjit
