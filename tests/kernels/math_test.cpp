// Arithmetic, comparison, logic and their shape values.
#include "op_test_util.h"

namespace deepjit {

namespace {

Tensor run1(const std::string& name, const std::vector<Tensor>& inputs, const AttrList& attrs = {}) {
  return run_op(name, attrs, inputs).at(0);
}

const float kNan = std::nanf("");
const float kInf = INFINITY;

}  // namespace

TEST(Math, AddBroadcastsEveryPattern) {
  expect_equal(run1("Add", {f32({3}, {1, 2, 3}), f32({3}, {10, 20, 30})}), f32({3}, {11, 22, 33}));
  expect_equal(run1("Add", {f32({3}, {1, 2, 3}), f32({}, {10})}), f32({3}, {11, 12, 13}));
  expect_equal(run1("Add", {f32({1}, {1}), f32({2, 2}, {1, 2, 3, 4})}), f32({2, 2}, {2, 3, 4, 5}));
  expect_equal(run1("Add", {f32({2, 1}, {10, 20}), f32({1, 3}, {1, 2, 3})}), f32({2, 3}, {11, 12, 13, 21, 22, 23}));
  expect_equal(run1("Add", {f32({2, 2, 2}, {0, 1, 2, 3, 4, 5, 6, 7}), f32({2, 1}, {10, 20})}),
               f32({2, 2, 2}, {10, 11, 22, 23, 14, 15, 26, 27}));
  expect_equal(run1("Add", {f32({2, 1, 2}, {0, 1, 2, 3}), f32({1, 2, 1}, {10, 20})}),
               f32({2, 2, 2}, {10, 11, 20, 21, 12, 13, 22, 23}));
  expect_equal(run1("Add", {f32({0, 3}, {}), f32({3}, {1, 2, 3})}), f32({0, 3}, {}));
  EXPECT_EQ(error_code_of([] { run1("Add", {f32({2}, {1, 2}), f32({3}, {1, 2, 3})}); }), Code::SHAPE_MISMATCH);
  EXPECT_EQ(error_code_of([] { run1("Add", {f32({1}, {1}), f64({1}, {1})}); }), Code::TYPE);
}

TEST(Math, ManyShortRowsAgainstOne) {
  std::vector<float> x, expected;
  for (int i = 0; i < 2 * 400 * 3; ++i) x.push_back(static_cast<float>(i));
  for (int i = 0; i < 2 * 400 * 3; ++i) expected.push_back(static_cast<float>(i - (i >= 1200 ? 40 : 10) * (i % 3 + 1)));
  const Tensor rows = f32({2, 1, 3}, {10, 20, 30, 40, 80, 120});
  expect_equal(run1("Sub", {f32({2, 400, 3}, x), rows}), f32({2, 400, 3}, expected));
  const Tensor negative = run1("Sub", {rows, f32({2, 400, 3}, x)});
  expect_equal(run1("Neg", {negative}), f32({2, 400, 3}, expected));
}

TEST(Math, BroadcastAgreesWithADirectSumOnRandomShapes) {
  uint32_t seed = 7;
  const auto next = [&seed](uint32_t n) { return (seed = seed * 1664525u + 1013904223u) / 65536u % n; };
  for (int round = 0; round < 300; ++round) {
    const int rank = 1 + static_cast<int>(next(5));
    Dims out = Dims::filled(rank, 1), a, b;
    for (int d = 0; d < rank; ++d) out[d] = 1 + next(4);
    for (int d = 0; d < rank; ++d) {
      const uint32_t kind = next(3);
      a.push_back(kind == 1 ? 1 : out[d]);
      b.push_back(kind == 2 ? 1 : out[d]);
    }
    std::vector<float> va(static_cast<size_t>(a.count())), vb(static_cast<size_t>(b.count()));
    for (size_t i = 0; i < va.size(); ++i) va[i] = static_cast<float>(i);
    for (size_t i = 0; i < vb.size(); ++i) vb[i] = static_cast<float>(1000 * i);
    const Tensor sum = run1("Add", {f32(a, va), f32(b, vb)});
    ASSERT_EQ(sum.dims().to_string(), broadcast_dims(a, b).to_string());
    const Dims so = sum.dims().strides(), sa = a.strides(), sb = b.strides();
    for (int64_t i = 0; i < sum.count(); ++i) {
      int64_t ia = 0, ib = 0;
      for (int d = 0; d < rank; ++d) {
        const int64_t at = i / so[d] % sum.dims()[d];
        ia += a[d] == 1 ? 0 : at * sa[d];
        ib += b[d] == 1 ? 0 : at * sb[d];
      }
      ASSERT_EQ(sum.as<float>()[i], static_cast<float>(ia + 1000 * ib)) << a.to_string() << b.to_string();
    }
  }
}

TEST(Math, IntegersWrapAround) {
  expect_equal(run1("Add", {u8({2}, {250, 1}), u8({}, {10})}), u8({2}, {4, 11}));
  expect_equal(run1("Mul", {i8({1}, {100}), i8({1}, {2})}), i8({1}, {-56}));
  expect_equal(run1("Sub", {i32({1}, {INT32_MIN}), i32({1}, {1})}), i32({1}, {INT32_MAX}));
  expect_equal(run1("Neg", {i8({2}, {-128, 5})}), i8({2}, {-128, -5}));
  expect_equal(run1("Abs", {i32({3}, {INT32_MIN, -3, 3})}), i32({3}, {INT32_MIN, 3, 3}));
}

TEST(Math, IntegerDivTruncatesAndNeverTraps) {
  expect_equal(run1("Div", {i32({4}, {-7, 7, -7, 7}), i32({4}, {2, 2, -2, -2})}), i32({4}, {-3, 3, 3, -3}));
  expect_equal(run1("Div", {i32({2}, {INT32_MIN, 5}), i32({2}, {-1, 0})}), i32({2}, {INT32_MIN, 0}));
  expect_equal(run1("Div", {i64({1}, {INT64_MIN}), i64({1}, {-1})}), i64({1}, {INT64_MIN}));
  expect_equal(run1("Div", {f32({3}, {1, -1, 0}), f32({}, {0})}), f32({3}, {kInf, -kInf, kNan}));
}

TEST(Math, ModFollowsTheDivisorAndFmodTheDividend) {
  expect_equal(run1("Mod", {i32({2}, {18542495, -7}), i32({}, {32})}), i32({2}, {31, 25}));
  expect_equal(run1("Mod", {i64({3}, {-5, 5, 5}), i64({3}, {3, -3, 0})}), i64({3}, {1, -1, 0}));
  expect_equal(run1("Mod", {i32({2}, {-7, 7}), i32({2}, {32, -4})}, {{"fmod", int64_t{1}}}), i32({2}, {-7, 3}));
  expect_close(run1("Mod", {f32({2}, {-4.3f, 7.2f}), f32({2}, {2.1f, -3.4f})}, {{"fmod", int64_t{1}}}),
               f32({2}, {-0.1f, 0.4f}));
  expect_equal(run1("Mod", {i64({1}, {INT64_MIN}), i64({1}, {-1})}), i64({1}, {0}));
}

TEST(Math, PowTakesMixedTypes) {
  expect_equal(run1("Pow", {f32({3}, {1, 2, 3}), f32({3}, {4, 5, 6})}), f32({3}, {1, 32, 729}));
  expect_equal(run1("Pow", {f32({3}, {-1, 2, 3}), i64({}, {2})}), f32({3}, {1, 4, 9}));
  expect_equal(run1("Pow", {i32({3}, {1, 2, -3}), i32({3}, {4, 5, 3})}), i32({3}, {1, 32, -27}));
  expect_equal(run1("Pow", {i64({3}, {1, -1, 2}), i64({}, {-1})}), i64({3}, {1, -1, 0}));
  expect_equal(run1("Pow", {i64({2}, {2, 9}), f32({2}, {10, 0.5f})}), i64({2}, {1024, 3}));
  expect_close(run1("Pow", {f16({2}, {4, 9}), f16({}, {0.5f})}), f16({2}, {2, 3}));
  expect_equal(run1("Pow", {f32({2}, {2, 4}), f32({}, {-1})}), f32({2}, {0.5f, 0.25f}));
}

TEST(Math, BitOperations) {
  const Tensor x = make_tensor<uint8_t>(DType::UINT8, {3}, std::vector<int>{16, 4, 1});
  expect_equal(run1("BitShift", {x, u8({3}, {1, 2, 8})}, {{"direction", std::string("LEFT")}}), u8({3}, {32, 16, 0}));
  expect_equal(run1("BitShift", {x, u8({3}, {1, 2, 9})}, {{"direction", std::string("RIGHT")}}), u8({3}, {8, 1, 0}));
  EXPECT_EQ(error_code_of([&] { run1("BitShift", {x, x}, {{"direction", std::string("UP")}}); }), Code::ATTRIBUTE);
  expect_equal(run1("BitwiseAnd", {i32({2}, {12, -1}), i32({2}, {10, 7})}), i32({2}, {8, 7}));
  expect_equal(run1("BitwiseOr", {i32({1}, {12}), i32({1}, {10})}), i32({1}, {14}));
  expect_equal(run1("BitwiseXor", {u8({1}, {12}), u8({1}, {10})}), u8({1}, {6}));
  expect_equal(run1("BitwiseNot", {i8({2}, {0, 5})}), i8({2}, {-1, -6}));
}

TEST(Math, LogicAndComparison) {
  const Tensor a = bools({4}, {0, 0, 1, 1});
  const Tensor b = bools({4}, {0, 1, 0, 1});
  expect_equal(run1("And", {a, b}), bools({4}, {0, 0, 0, 1}));
  expect_equal(run1("Or", {a, b}), bools({4}, {0, 1, 1, 1}));
  expect_equal(run1("Xor", {a, b}), bools({4}, {0, 1, 1, 0}));
  expect_equal(run1("Not", {a}), bools({4}, {1, 1, 0, 0}));
  const Tensor x = f32({4}, {1, 2, 3, kNan});
  const Tensor two = f32({}, {2});
  expect_equal(run1("Equal", {x, two}), bools({4}, {0, 1, 0, 0}));
  expect_equal(run1("Greater", {x, two}), bools({4}, {0, 0, 1, 0}));
  expect_equal(run1("Less", {x, two}), bools({4}, {1, 0, 0, 0}));
  expect_equal(run1("GreaterOrEqual", {x, two}), bools({4}, {0, 1, 1, 0}));
  expect_equal(run1("LessOrEqual", {x, two}), bools({4}, {1, 1, 0, 0}));
  expect_equal(run1("Equal", {f16({2}, {0, 1}), f16({2}, {-0.0f, 1})}), bools({2}, {1, 1}));
  expect_equal(run1("Less", {u8({1}, {200}), u8({1}, {3})}), bools({1}, {0}));
}

TEST(Math, EqualAndWhereTakeStrings) {
  Tensor a(DType::STRING, {2}), b(DType::STRING, {1});
  a.as<std::string>()[0] = "x";
  a.as<std::string>()[1] = "y";
  b.as<std::string>()[0] = "y";
  expect_equal(run1("Equal", {a, b}), bools({2}, {0, 1}));
  const Tensor out = run1("Where", {bools({2}, {1, 0}), a, b});
  EXPECT_EQ(out.as<std::string>()[0], "x");
  EXPECT_EQ(out.as<std::string>()[1], "y");
}

TEST(Math, VariadicOpsBroadcastMixedRanks) {
  const Tensor a = f32({2, 3}, {1, 5, 3, 4, 2, 6});
  const Tensor b = f32({3}, {2, 4, 9});
  const Tensor c = f32({}, {3});
  expect_equal(run1("Max", {a, b, c}), f32({2, 3}, {3, 5, 9, 4, 4, 9}));
  expect_equal(run1("Min", {a, b, c}), f32({2, 3}, {1, 3, 3, 2, 2, 3}));
  expect_equal(run1("Sum", {a, b, c}), f32({2, 3}, {6, 12, 15, 9, 9, 18}));
  expect_equal(run1("Mean", {a, b, c}), f32({2, 3}, {2, 4, 5, 3, 3, 6}));
  expect_equal(run1("Sum", {c, c, f32({2}, {1, 2})}), f32({2}, {7, 8}));
  expect_equal(run1("Max", {a}), a);
  expect_equal(run1("Max", {i64({2}, {1, 5}), i64({2}, {3, 2})}), i64({2}, {3, 5}));
  expect_equal(run1("Max", {f32({2}, {kNan, 1}), f32({2}, {1, kNan})}), f32({2}, {kNan, kNan}));
}

TEST(Math, WhereBroadcastsAllThree) {
  expect_equal(run1("Where", {bools({2, 1}, {1, 0}), f32({3}, {1, 2, 3}), f32({}, {9})}),
               f32({2, 3}, {1, 2, 3, 9, 9, 9}));
  expect_equal(run1("Where", {bools({3}, {1, 0, 1}), i64({3}, {1, 2, 3}), i64({3}, {4, 5, 6})}), i64({3}, {1, 5, 3}));
}

TEST(Math, RoundingGoesToEven) {
  expect_equal(run1("Round", {f32({6}, {0.5f, 1.5f, 2.5f, -0.5f, -1.5f, 2.6f})}), f32({6}, {0, 2, 2, 0, -2, 3}));
  expect_equal(run1("Ceil", {f64({2}, {-1.5, 1.2})}), f64({2}, {-1, 2}));
  expect_equal(run1("Floor", {bf16({2}, {-1.5f, 1.25f})}), bf16({2}, {-2, 1}));
  expect_equal(run1("Sign", {f32({4}, {-2, 0, 3, kNan})}), f32({4}, {-1, 0, 1, kNan}));
  expect_equal(run1("Sign", {u8({2}, {0, 7})}), u8({2}, {0, 1}));
}

TEST(Math, ElementaryFunctionsMatchTheLibrary) {
  const std::vector<float> x = {-0.9f, -0.3f, 0.0f, 0.2f, 0.7f};
  const std::pair<const char*, double (*)(double)> functions[] = {
      {"Exp", std::exp},   {"Erf", std::erf},     {"Sin", std::sin},    {"Cos", std::cos},   {"Tan", std::tan},
      {"Asin", std::asin}, {"Acos", std::acos},   {"Atan", std::atan},  {"Sinh", std::sinh}, {"Cosh", std::cosh},
      {"Tanh", std::tanh}, {"Atanh", std::atanh}, {"Asinh", std::asinh}};
  for (const auto& [name, f] : functions) {
    std::vector<float> expected;
    std::vector<double> expected64;
    for (float v : x) expected.push_back(static_cast<float>(f(static_cast<double>(v))));
    for (float v : x) expected64.push_back(f(static_cast<double>(v)));
    SCOPED_TRACE(name);
    expect_close(run1(name, {f32({5}, x)}), f32({5}, expected), 2e-7);
    expect_close(run1(name, {f64({5}, {x.begin(), x.end()})}), f64({5}, expected64), 1e-15);
    expect_close(run1(name, {f16({5}, x)}), f16({5}, expected), 2e-3);
  }
  expect_close(run1("Acosh", {f32({2}, {1, 3})}), f32({2}, {0, 1.7627472f}), 2e-7);
  expect_close(run1("Sqrt", {f32({2}, {4, -1})}), f32({2}, {2, kNan}));
  expect_close(run1("Log", {f32({3}, {1, 0, -1})}), f32({3}, {0, -kInf, kNan}));
  expect_close(run1("Reciprocal", {f32({2}, {4, 0})}), f32({2}, {0.25f, kInf}));
}

TEST(Math, IsNanAndIsInf) {
  const Tensor x = f32({4}, {kNan, kInf, -kInf, 1});
  expect_equal(run1("IsNaN", {x}), bools({4}, {1, 0, 0, 0}));
  expect_equal(run1("IsInf", {x}), bools({4}, {0, 1, 1, 0}));
  expect_equal(run1("IsInf", {x}, {{"detect_negative", int64_t{0}}}), bools({4}, {0, 1, 0, 0}));
  const Tensor e5m2 = make_tensor<uint8_t>(DType::FLOAT8E5M2, {3}, std::vector<int>{0x7c, 0xfc, 0x7f});
  expect_equal(run1("IsInf", {e5m2}, {{"detect_positive", int64_t{0}}}), bools({3}, {0, 1, 0}));
  expect_equal(run1("IsNaN", {e5m2}), bools({3}, {0, 0, 1}));
}

TEST(Math, BroadcastOfSymbolicShapes) {
  const auto type = [](const std::vector<std::string>& a, const std::vector<std::string>& b) {
    return infer_op("Add", {}, {{DType::FLOAT32, a}, {DType::FLOAT32, b}}).type();
  };
  EXPECT_EQ(type({"N", "3"}, {"N", "3"}), "float32[N,3]");
  EXPECT_EQ(type({"N", "1"}, {"H"}), "float32[N,H]");
  EXPECT_EQ(type({"N", "4"}, {"4"}), "float32[N,4]");
  EXPECT_EQ(type({"N"}, {"4"}), "float32[4]");
  EXPECT_EQ(type({"N"}, {"M"}), "float32[?0]");
  EXPECT_EQ(error_code_of([&] { type({"N", "3"}, {"N", "4"}); }), Code::SHAPE_MISMATCH);
}

TEST(Math, ShapeArithmeticStaysSymbolic) {
  const InferInput a = known_values({"N", "H*2", "6"});
  const InferInput two = InferInput(scalar_i64(2));
  EXPECT_EQ(infer_op("Add", {}, {a, two}).value(), "N+2,H*2+2,8");
  EXPECT_EQ(infer_op("Sub", {}, {a, two}).value(), "N-2,H*2-2,4");
  EXPECT_EQ(infer_op("Mul", {}, {a, known_values({"3", "W", "N"})}).value(), "N*3,H*W*2,N*6");
  EXPECT_EQ(infer_op("Div", {}, {a, two}).value(), "N//2,H,3");
  EXPECT_EQ(infer_op("Div", {}, {known_values({"N-1"}), two}).value(), "unknown");  // N may be 0: -1/2 truncates
  EXPECT_EQ(infer_op("Div", {}, {known_values({"-7"}), two}).value(), "-3");
  EXPECT_EQ(infer_op("Max", {}, {a, InferInput(scalar_i64(0))}).value(), "N,H*2,6");
  EXPECT_EQ(infer_op("Min", {}, {known_values({"N", "6"}), InferInput(scalar_i64(4))}).value(), "min(4,N),4");
  EXPECT_EQ(infer_op("Neg", {}, {known_values({"N", "6"})}).value(), "-N,-6");
  EXPECT_EQ(infer_op("Abs", {}, {known_values({"N", "-6"})}).value(), "N,6");
  const Tensor big = i64({1}, {INT64_MAX});
  EXPECT_EQ(infer_op("Add", {}, {big, big}).value(), "unknown");
}

TEST(Math, ShapePatternEqualThenWhere) {
  // Expand exports: Where(shape == -1, ones, shape)
  EXPECT_EQ(infer_op("Equal", {}, {known_values({"-1", "N"}), InferInput(scalar_i64(-1))}).value(), "1,0");
  EXPECT_EQ(infer_op("Equal", {}, {known_values({"N"}), InferInput(scalar_i64(4))}).value(), "unknown");
  EXPECT_EQ(infer_op("Where", {}, {bools({2}, {1, 0}), known_values({"N", "M"}), known_values({"3", "4"})}).value(),
            "N,4");
}

}  // namespace deepjit
