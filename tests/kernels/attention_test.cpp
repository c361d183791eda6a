#include <cmath>

#include "op_test_util.h"

namespace deepjit {

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

Tensor wave(const Dims& dims, float step) {
  Tensor t(DType::FLOAT32, dims);
  for (int64_t i = 0; i < t.count(); ++i) t.as<float>()[i] = std::sin(step * static_cast<float>(i + 1));
  return t;
}

// The definition for rank 4, in double; bias(b, h, i, j) is added to the scores.
template <typename F>
Tensor naive_attention(const Tensor& q, const Tensor& k, const Tensor& v, F bias) {
  const Dims qd = q.dims(), kd = k.dims(), vd = v.dims();
  Tensor y(DType::FLOAT32, {qd[0], qd[1], qd[2], vd[3]});
  const double scale = 1 / std::sqrt(static_cast<double>(qd[3]));
  for (int64_t b = 0; b < qd[0]; ++b)
    for (int64_t h = 0; h < qd[1]; ++h)
      for (int64_t i = 0; i < qd[2]; ++i) {
        const int64_t kv = b * kd[1] + h / (qd[1] / kd[1]);
        std::vector<double> p(static_cast<size_t>(kd[2]));
        double sum = 0;
        for (int64_t j = 0; j < kd[2]; ++j) {
          double dot = 0;
          for (int64_t d = 0; d < qd[3]; ++d) {
            dot += double(q.as<float>()[((b * qd[1] + h) * qd[2] + i) * qd[3] + d]) *
                   k.as<float>()[(kv * kd[2] + j) * qd[3] + d];
          }
          sum += p[static_cast<size_t>(j)] = std::exp(dot * scale + bias(b, h, i, j));
        }
        for (int64_t d = 0; d < vd[3]; ++d) {
          double out = 0;
          for (int64_t j = 0; j < kd[2]; ++j) {
            out += p[static_cast<size_t>(j)] / sum * v.as<float>()[(kv * kd[2] + j) * vd[3] + d];
          }
          y.as<float>()[((b * qd[1] + h) * qd[2] + i) * vd[3] + d] = static_cast<float>(out);
        }
      }
  return y;
}

// Joins two tensors along axis 2 of 4.
Tensor join(const Tensor& a, const Tensor& b) {
  Dims dims = a.dims();
  const int64_t left = a.dims()[2] * dims[3], right = b.dims()[2] * dims[3];
  dims[2] += b.dims()[2];
  Tensor out(DType::FLOAT32, dims);
  for (int64_t i = 0; i < dims[0] * dims[1]; ++i) {
    std::copy_n(a.as<float>() + i * left, left, out.as<float>() + i * (left + right));
    std::copy_n(b.as<float>() + i * right, right, out.as<float>() + i * (left + right) + left);
  }
  return out;
}

}  // namespace

TEST(Attention, GroupedHeadsAndMasks) {
  const Tensor q = wave({2, 4, 3, 5}, 0.7f), k = wave({2, 2, 6, 5}, 0.3f), v = wave({2, 2, 6, 7}, 0.9f);
  expect_close(run_op("Attention", {}, {q, k, v})[0],
               naive_attention(q, k, v, [](int64_t, int64_t, int64_t, int64_t) { return 0.0; }), 1e-5);
  const Tensor mask = wave({3, 6}, 0.5f);
  expect_close(
      run_op("Attention", {}, {q, k, v, mask})[0],
      naive_attention(q, k, v, [&](int64_t, int64_t, int64_t i, int64_t j) { return mask.as<float>()[i * 6 + j]; }),
      1e-5);
  // A boolean mask that is narrower than the keys hides the rest.
  const Tensor narrow = bools({2, 1, 1, 4}, {1, 0, 1, 1, 1, 1, 0, 1});
  expect_close(run_op("Attention", {}, {q, k, v, narrow})[0],
               naive_attention(q, k, v,
                               [&](int64_t b, int64_t, int64_t, int64_t j) {
                                 return j < 4 && narrow.as<uint8_t>()[b * 4 + j] != 0 ? 0.0 : -kInf;
                               }),
               1e-5);
  const Tensor valid = i64({2}, {2, 5});
  expect_close(run_op("Attention", {}, {q, k, v, none(), none(), none(), valid})[0],
               naive_attention(
                   q, k, v, [&](int64_t b, int64_t, int64_t, int64_t j) { return j < (b == 0 ? 2 : 5) ? 0 : -kInf; }),
               1e-5);
}

TEST(Attention, CausalWithACacheGivesPresentKeysAndValues) {
  const Tensor q = wave({1, 2, 3, 4}, 0.7f), k = wave({1, 2, 3, 4}, 0.3f), v = wave({1, 2, 3, 4}, 0.9f);
  const Tensor past_k = wave({1, 2, 2, 4}, 0.2f), past_v = wave({1, 2, 2, 4}, 0.8f);
  const std::vector<Tensor> out =
      run_op("Attention", {{"is_causal", int64_t{1}}}, {q, k, v, none(), past_k, past_v}, 4);
  const Tensor all_k = join(past_k, k), all_v = join(past_v, v);
  expect_close(
      out[0],
      naive_attention(q, all_k, all_v, [](int64_t, int64_t, int64_t i, int64_t j) { return j <= i + 2 ? 0 : -kInf; }),
      1e-5);
  expect_equal(out[1], all_k);
  expect_equal(out[2], all_v);
  EXPECT_EQ(out[3].dims(), (Dims{1, 2, 3, 5}));
}

TEST(Attention, PackedHeadsEqualSeparateHeads) {
  const int64_t heads = 2, length = 3, size = 4;
  const Tensor q = wave({1, heads, length, size}, 0.7f);
  Tensor packed(DType::FLOAT32, {1, length, heads * size});
  for (int64_t i = 0; i < q.count(); ++i) {
    const int64_t d = i % size, t = i / size % length, h = i / (size * length);
    packed.as<float>()[t * heads * size + h * size + d] = q.as<float>()[i];
  }
  const Tensor a = run_op("Attention", {}, {q, q, q})[0];
  const Tensor b = run_op("Attention", {{"q_num_heads", heads}, {"kv_num_heads", heads}}, {packed, packed, packed})[0];
  ASSERT_EQ(b.dims(), packed.dims());
  for (int64_t i = 0; i < q.count(); ++i) {
    const int64_t d = i % size, t = i / size % length, h = i / (size * length);
    EXPECT_FLOAT_EQ(b.as<float>()[t * heads * size + h * size + d], a.as<float>()[i]);
  }
}

TEST(Attention, ScoresAreKeptAtTheNamedStage) {
  const Tensor q = f32({1, 1, 1, 1}, {2}), k = f32({1, 1, 2, 1}, {1, 3}), v = f32({1, 1, 2, 1}, {0, 1});
  const Tensor mask = f32({1, 2}, {0.5f, -1});
  auto scores = [&](int64_t mode) {
    return run_op("Attention", {{"qk_matmul_output_mode", mode}, {"scale", 1.0f}, {"softcap", 2.0f}}, {q, k, v, mask},
                  4)[3];
  };
  expect_close(scores(0), f32({1, 1, 1, 2}, {2, 6}));
  expect_close(scores(1), f32({1, 1, 1, 2}, {2.5f, 5}));
  const float a = 2 * std::tanh(1.25f), b = 2 * std::tanh(2.5f);
  expect_close(scores(2), f32({1, 1, 1, 2}, {a, b}));
  expect_close(scores(3), f32({1, 1, 1, 2}, {1 / (1 + std::exp(b - a)), 1 / (1 + std::exp(a - b))}));
}

TEST(Attention, ShapeRule) {
  const InferInput q(DType::FLOAT32, {"N", "S", "64"}), k(DType::FLOAT32, {"N", "T", "32"});
  const AttrList attrs{{"q_num_heads", int64_t{8}}, {"kv_num_heads", int64_t{4}}};
  const InferInput past(DType::FLOAT32, {"N", "4", "P", "8"});
  const InferResult types = infer_op("Attention", attrs, {q, k, k, {}, past, past}, 4);
  EXPECT_EQ(types.type(0), "float32[N,S,64]");
  EXPECT_EQ(types.type(1), "float32[N,4," + Dim::parse("P+T").to_string() + ",8]");
  EXPECT_EQ(types.type(3), "float32[N,8,S," + Dim::parse("P+T").to_string() + "]");
  EXPECT_EQ(error_code_of([&] { infer_op("Attention", {}, {q, k, k}); }), Code::ATTRIBUTE);
  EXPECT_EQ(error_code_of([&] { infer_op("Attention", attrs, {q, k, k, {}, past}, 1); }), Code::ARITY);
  const InferInput wrong(DType::FLOAT32, {"N", "3", "P", "8"});
  EXPECT_EQ(error_code_of([&] { infer_op("Attention", attrs, {q, k, k, {}, past, wrong}, 1); }), Code::SHAPE_MISMATCH);
}

TEST(RotaryEmbedding, HalvesInterleavedAndPartial) {
  // One token at position 1 whose angles have cosines 0 and sines 1: (a, b) becomes (-b, a).
  const Tensor x = f32({1, 1, 1, 4}, {1, 2, 3, 4});
  const Tensor cosines = f32({2, 2}, {1, 1, 0, 0}), sines = f32({2, 2}, {0, 0, 1, 1}), position = i64({1, 1}, {1});
  expect_equal(run_op("RotaryEmbedding", {}, {x, cosines, sines, position})[0], f32({1, 1, 1, 4}, {-3, -4, 1, 2}));
  expect_equal(run_op("RotaryEmbedding", {{"interleaved", int64_t{1}}}, {x, cosines, sines, position})[0],
               f32({1, 1, 1, 4}, {-2, 1, -4, 3}));
  const Tensor c1 = f32({1, 1, 1}, {0}), s1 = f32({1, 1, 1}, {1});
  expect_equal(run_op("RotaryEmbedding", {{"rotary_embedding_dim", int64_t{2}}}, {x, c1, s1})[0],
               f32({1, 1, 1, 4}, {-2, 1, 3, 4}));
  EXPECT_EQ(error_code_of([&] {
              run_op("RotaryEmbedding", {}, {x, cosines, sines, i64({1, 1}, {2})});
            }),
            Code::INDEX_RANGE);
  EXPECT_EQ(error_code_of([&] { run_op("RotaryEmbedding", {}, {x, c1, s1}); }), Code::SHAPE_MISMATCH);
}

}  // namespace deepjit
