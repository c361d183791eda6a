// What steps become as cuBLASLt's products, without cuBLASLt: a product is carried out here by its own numbers and
// compared with the op's reference. tests/gpu has the library itself.
#include "kernels/cublaslt/algorithm.h"
#include "kernels/cublaslt/library.h"
#include "kernels/cublaslt/product.h"
#include "provider_test_util.h"

namespace deepjit {
namespace {

using cublaslt::Activation;
using cublaslt::Algorithm;
using cublaslt::Product;
using Ints = std::vector<int64_t>;
using Strings = std::vector<std::string>;

cublaslt::Product product_of_case(const StepCase& c, const std::vector<Tensor>& outputs) {
  const BoundCase bound(c, outputs);
  return cublaslt::product_of(bound.shape);
}

float activate(Activation activation, float x) {
  if (activation == Activation::RELU) return std::max(x, 0.0f);
  if (activation == Activation::NONE) return x;
  return 0.5f * x * (1 + std::tanh(0.7978845608f * (x + 0.044715f * x * x * x)));
}

// y as the product says.
void carry_out(const Product& p, const std::vector<Tensor>& inputs, Tensor& y) {
  const float* a = inputs[0].as<float>();
  const float* b = inputs[1].as<float>();
  const auto input = [&](int k) { return k < 0 ? nullptr : inputs[static_cast<size_t>(k)].as<float>(); };
  for (const Product::Offsets& launch : p.launches) {
    for (int64_t i = 0; i < p.batch * p.m * p.n; ++i) {
      const int64_t one = i / (p.m * p.n), row = i / p.n % p.m, column = i % p.n;
      const float* from_a = a + launch.a + one * p.stride.a;
      const float* from_b = b + launch.b + one * p.stride.b;
      double sum = 0;
      for (int64_t k = 0; k < p.k; ++k) {
        sum += double{from_a[p.trans_a ? k * p.m + row : row * p.k + k]} *
               from_b[p.trans_b ? column * p.k + k : k * p.n + column];
      }
      float value = p.alpha * static_cast<float>(sum);
      const int64_t place = row * p.n + column;
      if (const float* c = input(p.c_input)) value += p.beta * c[launch.c + one * p.stride.c + place];
      if (const float* bias = input(p.bias_input)) value += bias[column];
      y.as<float>()[launch.y + one * p.stride.y + place] = activate(p.activation, value);
    }
  }
}

Product check(const StepCase& c) {
  const std::vector<Tensor> expected = run_op(c.op, c.attrs, c.inputs);
  Product p = product_of_case(c, expected);
  EXPECT_EQ(p.reason, "");
  if (!p.reason.empty()) return p;
  Tensor y(DType::FLOAT32, expected[0].dims());
  std::fill_n(y.as<float>(), y.count(), NAN);  // every element must be written
  carry_out(p, c.inputs, y);
  EXPECT_LE(relative_error(y, expected[0]), 1e-5) << c.op;
  return p;
}

std::string reason(const StepCase& c) { return product_of_case(c, run_op(c.op, c.attrs, c.inputs)).reason; }

TEST(CublasltProduct, PlainAndTransposed) {
  check({"MatMul", {}, {random_f32({7, 5}, 1), random_f32({5, 3}, 2)}});
  for (int64_t ta : {0, 1}) {
    for (int64_t tb : {0, 1}) {
      const Product p = check({"deepjit.MatMul",
                               {{"trans_a", ta}, {"trans_b", tb}},
                               {random_f32(ta != 0 ? Dims{5, 7} : Dims{7, 5}, 1),
                                random_f32(tb != 0 ? Dims{3, 5} : Dims{5, 3}, 2), random_f32({3}, 3)}});
      EXPECT_EQ(p.bias_input, 2);
      EXPECT_EQ(p.c_input, -1);
    }
  }
}

TEST(CublasltProduct, Vectors) {
  check({"MatMul", {}, {random_f32({5}, 1), random_f32({5, 3}, 2)}});
  check({"MatMul", {}, {random_f32({7, 5}, 1), random_f32({5}, 2)}});
  check({"MatMul", {}, {random_f32({5}, 1), random_f32({5}, 2)}});
  check({"deepjit.MatMul", {}, {random_f32({4, 7, 5}, 1), random_f32({5}, 2), random_f32({7}, 3)}});
  check({"deepjit.MatMul", {}, {random_f32({5}, 1), random_f32({4, 5, 3}, 2), random_f32({4, 3}, 3)}});
}

TEST(CublasltProduct, RowsOfABatchAreRowsOfOneProduct) {
  const Product p = check({"MatMul", {}, {random_f32({2, 3, 7, 5}, 1), random_f32({5, 4}, 2)}});
  EXPECT_EQ(p.m, 42);
  EXPECT_EQ(p.batch, 1);
  const Product with_residual =
      check({"deepjit.MatMul",
             {{"epilogue", Strings{"Add($3)"}}},
             {random_f32({2, 3, 7, 5}, 1), random_f32({5, 4}, 2), random_f32({4}, 3), random_f32({2, 3, 7, 4}, 4)}});
  EXPECT_EQ(with_residual.m, 42);
  EXPECT_EQ(with_residual.c_input, 3);
  // A residual that is shared along the batch keeps the batch.
  const Product shared = check({"deepjit.MatMul",
                                {{"epilogue", Strings{"Add($3)"}}},
                                {random_f32({6, 7, 5}, 1), random_f32({5, 4}, 2), Tensor(), random_f32({7, 4}, 4)}});
  EXPECT_EQ(shared.batch, 6);
  EXPECT_EQ(shared.stride.b, 0);
  EXPECT_EQ(shared.stride.c, 0);
}

TEST(CublasltProduct, BatchesAndBroadcasts) {
  EXPECT_EQ(check({"MatMul", {}, {random_f32({2, 3, 7, 5}, 1), random_f32({2, 3, 5, 4}, 2)}}).batch, 6);
  check({"MatMul", {}, {random_f32({2, 3, 7, 5}, 1), random_f32({3, 5, 4}, 2)}});
  check({"MatMul", {}, {random_f32({2, 1, 7, 5}, 1), random_f32({3, 5, 4}, 2)}});
  check({"MatMul", {}, {random_f32({7, 5}, 1), random_f32({2, 3, 5, 4}, 2)}});
  check({"MatMul", {}, {random_f32({1, 3, 7, 5}, 1), random_f32({2, 1, 5, 4}, 2)}});
  check({"MatMul", {}, {random_f32({2, 1, 3, 7, 5}, 1), random_f32({2, 4, 1, 5, 4}, 2)}});
  check({"deepjit.MatMul",
         {{"trans_b", int64_t{1}}, {"epilogue", Strings{"Linear(0.125,0)", "Add($3)"}}},
         {random_f32({2, 3, 7, 5}, 1), random_f32({2, 3, 6, 5}, 2), Tensor(), random_f32({2, 1, 7, 6}, 3)}});
  EXPECT_NE(reason({"MatMul", {}, {random_f32({1, 20, 1, 2, 2}, 1), random_f32({20, 1, 20, 2, 2}, 2)}}), "");
}

TEST(CublasltProduct, Epilogues) {
  const auto step = [](const Strings& epilogue) {
    return StepCase{"deepjit.MatMul",
                    {{"epilogue", epilogue}},
                    {random_f32({7, 5}, 1), random_f32({5, 4}, 2), random_f32({4}, 3), random_f32({7, 4}, 4),
                     random_f32({1, 4}, 5), random_f32({7, 1}, 6), random_f32({7, 4}, 7)}};
  };
  EXPECT_EQ(check(step({"Relu"})).activation, Activation::RELU);
  EXPECT_EQ(check(step({"GeluTanh"})).activation, Activation::GELU_TANH);
  check(step({"Add($3)"}));
  check(step({"Add($3)", "Relu"}));
  // A second vector is C where it is as large as that only.
  for (const Strings& refused : {Strings{"Gelu"},
                                 {"Sigmoid"},
                                 {"Relu", "Add($3)"},
                                 {"Mul($3)"},
                                 {"Add($4)"},
                                 {"Add($5)"},
                                 {"Add($3)", "Add($6)"},
                                 {"Linear(2,0)"},
                                 {"Relu", "Relu"}}) {
    EXPECT_NE(reason(step(refused)), "") << refused[0];
  }
}

TEST(CublasltProduct, Gemm) {
  const auto step = [](const Dims& c, float alpha, float beta) {
    return StepCase{"Gemm",
                    {{"alpha", alpha}, {"beta", beta}, {"transB", int64_t{1}}},
                    {random_f32({7, 5}, 1), random_f32({4, 5}, 2), random_f32(c, 3)}};
  };
  EXPECT_EQ(check(step({4}, 0.5f, 1)).bias_input, 2);
  EXPECT_EQ(check(step({7, 4}, 0.5f, 2)).c_input, 2);
  EXPECT_EQ(check(step({7, 1}, 1, 0)).c_input, -1);
  EXPECT_NE(reason(step({7, 1}, 1, 1)), "");
  EXPECT_NE(reason(step({4}, 1, 2)), "");
  check({"Gemm", {{"transA", int64_t{1}}}, {random_f32({5, 7}, 1), random_f32({5, 4}, 2)}});
}

TEST(CublasltProduct, PointwiseConvolutions) {
  const auto step = [](const char* layout, const Dims& w, AttrList more) {
    AttrList attrs = {{"layout", std::string(layout)}};
    attrs.insert(attrs.end(), more.begin(), more.end());
    return StepCase{"deepjit.Conv",
                    attrs,
                    {random_f32({2, 5, 6, 8}, 1), random_f32(w, 2), random_f32({4}, 3), random_f32({2, 5, 6, 4}, 4)}};
  };
  const Product p = check(step("NHWC", {4, 8, 1, 1}, {{"epilogue", Strings{"Add($3)", "Relu"}}}));
  EXPECT_EQ(p.m, 60);
  EXPECT_EQ(p.bias_input, 2);
  EXPECT_EQ(p.c_input, 3);
  EXPECT_NE(reason(step("NHWC", {4, 8, 1, 1}, {{"strides", Ints{2, 2}}})), "");
  EXPECT_NE(reason(step("NHWC", {4, 8, 3, 3}, {{"pads", Ints{1, 1, 1, 1}}})), "");
  EXPECT_NE(reason(step("NHWC", {4, 4, 1, 1}, {{"group", int64_t{2}}})), "");
  EXPECT_NE(reason(step("NHWC", {4, 8, 1, 1}, {{"pads", Ints{1, 1, 1, 1}}})), "");
  EXPECT_NE(reason({"Conv", {}, {random_f32({2, 8, 5, 6}, 1), random_f32({4, 8, 1, 1}, 2)}}), "");
}

TEST(CublasltProduct, TypesAndEmptyOperands) {
  const StepCase c{"MatMul", {}, {Tensor(DType::FLOAT64, {2, 3}), Tensor(DType::FLOAT64, {3, 4})}};
  EXPECT_NE(reason(c), "");
  EXPECT_NE(reason({"MatMul", {}, {Tensor(DType::FLOAT32, {0, 3}), Tensor(DType::FLOAT32, {3, 4})}}), "");
  EXPECT_NE(reason({"MatMul", {}, {Tensor(DType::FLOAT32, {2, 0}), Tensor(DType::FLOAT32, {0, 4})}}), "");
  EXPECT_NE(reason({"Relu", {}, {random_f32({2, 3}, 1)}}), "");
}

TEST(CublasltProduct, Tf32OnlyWhereTheBuildSaysSo) {
  const StepCase c{"MatMul", {}, {random_f32({7, 5}, 1), random_f32({5, 3}, 2)}};
  const BoundCase bound(c, run_op(c.op, c.attrs, c.inputs));
  Program program;
  StepShape shape = bound.shape;
  shape.step = &bound.step;
  shape.program = &program;
  EXPECT_FALSE(cublaslt::product_of(shape).tf32);
  program.metadata["build.precision"] = "tf32";
  EXPECT_TRUE(cublaslt::product_of(shape).tf32);
}

TEST(CublasltAlgorithm, TextTellsItAll) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    Algorithm algorithm;
    for (size_t i = 0; i < algorithm.values.size(); ++i) {
      if (random() % 2 == 0) algorithm.values[i] = static_cast<uint32_t>(random() % 1000);
    }
    EXPECT_EQ(cublaslt::parse_algorithm(to_string(algorithm)), algorithm) << to_string(algorithm);
  }
  Algorithm algorithm;
  algorithm.values = {66, 20, 4, 2, 0, 0, 36, 0, 3};
  EXPECT_EQ(to_string(algorithm), "algo66.tile20.split4.reduce2.stages36.cluster3");
  algorithm.values[2] = UINT32_MAX;
  EXPECT_EQ(to_string(algorithm), "algo66.tile20.split-1.reduce2.stages36.cluster3");
  EXPECT_EQ(cublaslt::parse_algorithm(to_string(algorithm)), algorithm);
  EXPECT_EQ(cublaslt::parse_algorithm("heuristic"), std::nullopt);
}

TEST(CublasltAlgorithm, DamagedText) {
  for (const char* text : {"",
                           "algo",
                           "tile3",
                           "algo1.tile",
                           "algo1.tile0",
                           "algo1.tile2.tile2",
                           "algo1.split2.tile2",
                           "algo1.",
                           "algo1..tile2",
                           "algo-1",
                           "algo1.split-2",
                           "algo1.split-",
                           "algo1.cluster-1",
                           "algo1.tile9999999999",
                           "algo1.cluster70000",
                           "algo1 ",
                           "algo01",
                           "heuristics",
                           "algo1.color3",
                           "algo1.tile2x"}) {
    EXPECT_EQ(error_code_of([&] { cublaslt::parse_algorithm(text); }), Code::ENGINE_RANGE) << text;
  }
}

TEST(CublasltProvider, WithoutAGpu) {
  const StepCase c{"MatMul", {}, {random_f32({7, 5}, 1), random_f32({5, 3}, 2)}};
  const BoundCase bound(c, run_op(c.op, c.attrs, c.inputs));
  Program program;
  StepShape shape = bound.shape;
  shape.step = &bound.step;
  shape.program = &program;
  program.metadata["build.device"] = "cuda";
  const Offer offer = cublaslt_offerer().offer(shape);
  ASSERT_EQ(offer.tactics.size(), 1u);
  EXPECT_EQ(offer.tactics[0].variant, "heuristic");
  EXPECT_EQ(cublaslt_launcher().make(shape, offer.tactics[0]), nullptr);
  program.metadata["build.device"] = "null";
  EXPECT_TRUE(cublaslt_offerer().offer(shape).tactics.empty());
  EXPECT_NE(cublaslt_offerer().offer(shape).reason, "");
}

TEST(CublasltProvider, DamagedVariantOfAnEngine) {
  const StepCase c{"MatMul", {}, {random_f32({7, 5}, 1), random_f32({5, 3}, 2)}};
  const BoundCase bound(c, run_op(c.op, c.attrs, c.inputs));
  Tactic tactic;
  tactic.variant = "algo1.tile";
  EXPECT_EQ(error_code_of([&] { cublaslt_launcher().make(bound.shape, tactic); }), Code::ENGINE_RANGE);
}

TEST(CublasltProvider, AMissingLibraryIsNamedWithWhatToInstall) {
  if (cublaslt::find_library() != nullptr) GTEST_SKIP() << "cuBLASLt is here: " << cublaslt::find_library()->file;
  try {
    cublaslt::library();
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::LIBRARY_MISSING);
    EXPECT_NE(std::string(e.hint()).find("nvidia-cublas"), std::string::npos);
  }
}

}  // namespace
}  // namespace deepjit
