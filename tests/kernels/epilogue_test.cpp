#include "ops/linear/epilogue.h"

#include <cmath>

#include "op_test_util.h"

namespace deepjit {

namespace {

// The entry applied to the numbers of `x`, in double.
std::vector<double> apply(const std::vector<std::string>& entries, const std::vector<double>& x) {
  Tensor t = f64({static_cast<int64_t>(x.size())}, x);
  apply_epilogue(parse_epilogue(entries), {}, t.view());
  return t.to_f64();
}

void expect_entry(const std::string& entry, const std::vector<double>& x, const std::vector<double>& expected) {
  SCOPED_TRACE(entry);
  const std::vector<double> actual = apply({entry}, x);
  for (size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(actual[i], expected[i], 1e-6);
}

}  // namespace

TEST(Epilogue, EveryFunctionHasItsFormula) {
  expect_entry("Relu", {-1, 2}, {0, 2});
  expect_entry("Sigmoid", {0, 1}, {0.5, 0.7310585786});
  expect_entry("Tanh", {0.5}, {0.46211715726});
  expect_entry("Gelu", {-1}, {-0.15865525393});
  expect_entry("GeluTanh", {-1}, {-0.15880800939});
  expect_entry("Exp", {1}, {2.718281828459});
  expect_entry("Abs", {-3}, {3});
  expect_entry("Sqrt", {9}, {3});
  expect_entry("Clip(-1,1)", {-3, 0.5, 3}, {-1, 0.5, 1});
  expect_entry("LeakyRelu(0.25)", {-4, 4}, {-1, 4});
  expect_entry("Elu(2)", {-1, 1}, {2 * (std::exp(-1.0) - 1), 1});
  expect_entry("HardSigmoid(0.2,0.5)", {-10, 1, 10}, {0, 0.7, 1});
  expect_entry("HardSwish", {-4, 1, 4}, {0, 2.0 / 3, 4});
  expect_entry("Swish(1)", {2}, {2 / (1 + std::exp(-2.0))});
  expect_entry("Softplus", {0, 100, -100}, {std::log(2.0), 100, 0});
  expect_entry("Linear(2,-1)", {3}, {5});
}

TEST(Epilogue, NanPassesAndClipMaxWins) {
  EXPECT_TRUE(std::isnan(apply({"Relu", "Clip(0,6)"}, {NAN})[0]));
  EXPECT_EQ(apply({"Clip(3,1)"}, {2})[0], 1);
}

TEST(Epilogue, TextRoundTrips) {
  for (const std::string text : {"Relu", "Clip(0,6)", "Clip(-inf,0.1)", "LeakyRelu(0.01)", "Add($3)", "Linear(2,-1)"}) {
    const std::vector<EpilogueOp> ops = parse_epilogue({text});
    ASSERT_EQ(ops.size(), 1u);
    EXPECT_EQ(to_string(ops[0]), text);
    EXPECT_EQ(parse_epilogue({to_string(ops[0])})[0], ops[0]);
  }
}

TEST(Epilogue, UnknownTextIsAnAttributeError) {
  for (const std::string text : {"", "relu", "Relu()", "Clip(1)", "Clip(1,2", "Clip(1,2)x", "Add", "Add(3)", "Add($)",
                                 "Add($3", "Foo(1)", "Clip(a,b)"}) {
    EXPECT_EQ(error_code_of([&] { parse_epilogue({text}); }), Code::ATTRIBUTE) << text;
  }
}

TEST(Epilogue, OperandsBroadcastAnyWay) {
  const Dims dims{2, 3, 4};
  for (const Dims& operand :
       {Dims{}, Dims{1}, Dims{4}, Dims{3, 1}, Dims{3, 4}, Dims{2, 1, 4}, Dims{2, 1, 1}, Dims{2, 3, 4}, Dims{1, 3, 1}}) {
    SCOPED_TRACE(operand.to_string());
    Tensor y(DType::FLOAT32, dims), b(DType::FLOAT32, operand);
    for (int64_t i = 0; i < y.count(); ++i) y.as<float>()[i] = static_cast<float>(100 * i);
    for (int64_t i = 0; i < b.count(); ++i) b.as<float>()[i] = static_cast<float>(i + 1);
    const std::vector<TensorView> inputs{b.view()};
    apply_epilogue(parse_epilogue({"Add($0)"}), inputs, y.view());
    for (int64_t i = 0; i < y.count(); ++i) {
      const int64_t index[3] = {i / 12, i / 4 % 3, i % 4};
      int64_t at = 0;
      for (int d = 0; d < operand.rank(); ++d) {
        at = at * operand[d] + (operand[d] == 1 ? 0 : index[3 - operand.rank() + d]);
      }
      EXPECT_EQ(y.as<float>()[i], static_cast<float>(100 * i + at + 1)) << i;
    }
  }
}

TEST(Epilogue, LongRowsAndHalfTypes) {
  Tensor y(DType::FLOAT16, {2, 1500});
  for (int64_t i = 0; i < y.count(); ++i) y.as<float16>()[i] = float16(static_cast<float>(i % 8));
  Tensor row(DType::FLOAT16, {1500});
  for (int64_t i = 0; i < 1500; ++i) row.as<float16>()[i] = float16(static_cast<float>(i % 4));
  const std::vector<TensorView> inputs{row.view()};
  apply_epilogue(parse_epilogue({"Sub($0)", "Linear(2,1)"}), inputs, y.view());
  for (int64_t i = 0; i < y.count(); ++i) {
    EXPECT_EQ(static_cast<float>(y.as<float16>()[i]), static_cast<float>(2 * (i % 8 - i % 1500 % 4) + 1)) << i;
  }
}

TEST(Epilogue, AnOperandThatWouldEnlargeTheResultIsRejected) {
  Tensor y = f32({1, 2}, {1, 2});
  const Tensor b = f32({3, 2}, {1, 2, 3, 4, 5, 6});
  const std::vector<TensorView> inputs{b.view()};
  EXPECT_EQ(error_code_of([&] { apply_epilogue(parse_epilogue({"Mul($0)"}), inputs, y.view()); }),
            Code::SHAPE_MISMATCH);
  const AttrList attrs{{"epilogue", std::vector<std::string>{"Mul($3)"}}};
  EXPECT_EQ(error_code_of([&] {
              infer_op("deepjit.MatMul", attrs,
                       {{DType::FLOAT32, {"1", "4"}}, {DType::FLOAT32, {"4", "2"}}, {}, {DType::FLOAT32, {"3", "2"}}});
            }),
            Code::SHAPE_MISMATCH);
  EXPECT_EQ(error_code_of([&] {
              infer_op("deepjit.MatMul", attrs, {{DType::FLOAT32, {"1", "4"}}, {DType::FLOAT32, {"4", "2"}}});
            }),
            Code::ARITY);
}

// A fused op of 16 bits sums in float32, applies its epilogue there, and rounds once: what lies between may leave the
// type's range, and loses nothing.
TEST(Epilogue, SixteenBitOpsRoundOnce) {
  const std::vector<std::string> entries = {"Linear(0.01,0)", "Add($3)", "Relu"};
  const Tensor x = f16({1, 1, 1, 2}, {300, 1}), w = f16({1, 1, 1, 1}, {300}), b = f16({1}, {100});
  const Tensor r = f16({1, 1, 1, 2}, {1, -3.5});
  for (const std::string op : {"deepjit.Conv", "deepjit.ConvTranspose"}) {
    const Tensor y = run_op(op, {{"epilogue", entries}}, {x, w, b, r})[0];
    EXPECT_EQ(y.dtype(), DType::FLOAT16);
    EXPECT_EQ(y.to_f64(), f16({2}, {902, 0.5}).to_f64()) << op;  // 90100 is no float16
  }
  for (const DType type : {DType::FLOAT16, DType::BFLOAT16}) {
    const auto of = [&](const Dims& dims, const std::vector<float>& v) {
      return type == DType::FLOAT16 ? f16(dims, v) : bf16(dims, v);
    };
    // 1 + 2^-12 - 1: a rounded sum would be 0.
    const Tensor y = run_op("deepjit.MatMul", {{"epilogue", std::vector<std::string>{"Add($3)"}}},
                            {of({1, 2}, {1, 0x1p-12f}), of({2, 1}, {1, 1}), none(), of({1}, {-1})})[0];
    EXPECT_EQ(y.to_f64()[0], 0x1p-12);
  }
}

}  // namespace deepjit
