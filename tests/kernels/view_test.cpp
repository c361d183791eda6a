// Reshape and friends, with concrete and with symbolic shapes.
#include "op_test_util.h"

namespace deepjit {

namespace {

Tensor run1(const std::string& name, const std::vector<Tensor>& inputs, const AttrList& attrs = {}) {
  return run_op(name, attrs, inputs).at(0);
}

Tensor iota(const Dims& dims) {
  std::vector<float> values;
  for (int64_t i = 0; i < dims.count(); ++i) values.push_back(static_cast<float>(i));
  return f32(dims, values);
}

std::string reshaped(const Dims& from, const std::vector<int64_t>& shape, bool allowzero = false) {
  const Tensor in = iota(from);
  const Tensor out = run1("Reshape", {in, Tensor::vector_i64(shape)}, {{"allowzero", int64_t{allowzero}}});
  EXPECT_TRUE(out.same_as(in.reshaped(out.dims())));
  return out.dims().to_string();
}

Code reshape_error(const Dims& from, const std::vector<int64_t>& shape, bool allowzero = false) {
  return error_code_of([&] { reshaped(from, shape, allowzero); });
}

std::string inferred(const std::vector<std::string>& from, const std::vector<std::string>& shape) {
  return infer_op("Reshape", {}, {{DType::FLOAT32, from}, known_values(shape)}).type();
}

}  // namespace

TEST(View, ReshapeZeroMinusOneAndAllowzero) {
  EXPECT_EQ(reshaped({2, 3}, {0, -1}), "[2,3]");
  EXPECT_EQ(reshaped({2, 3, 4}, {0, -1}), "[2,12]");
  EXPECT_EQ(reshaped({2, 3}, {6}), "[6]");
  EXPECT_EQ(reshaped({1}, {}), "[]");
  EXPECT_EQ(reshaped({0, 3}, {2, 0}, true), "[2,0]");
  EXPECT_EQ(reshaped({0, 4}, {0, -1}), "[0,4]");
  EXPECT_EQ(reshape_error({0, 4}, {0, -1}, true), Code::SHAPE_MISMATCH);
  EXPECT_EQ(reshape_error({2, 3}, {-1, -1}), Code::SHAPE_MISMATCH);
  EXPECT_EQ(reshape_error({2, 3}, {4, -1}), Code::SHAPE_MISMATCH);
  EXPECT_EQ(reshape_error({2, 3}, {7}), Code::SHAPE_MISMATCH);
  EXPECT_EQ(reshape_error({2, 3}, {-2, 3}), Code::SHAPE_MISMATCH);
  EXPECT_EQ(reshape_error({2, 3}, {2, 3, 0}), Code::SHAPE_MISMATCH);
}

TEST(View, ReshapeStaysSymbolic) {
  EXPECT_EQ(inferred({"N", "768", "14", "14"}, {"0", "768", "-1"}), "float32[N,768,196]");
  EXPECT_EQ(inferred({"N", "196", "768"}, {"N", "196", "12", "-1"}), "float32[N,196,12,64]");
  EXPECT_EQ(inferred({"N", "H", "16"}, {"-1", "16"}), "float32[H*N,16]");
  EXPECT_EQ(inferred({"N", "H", "W"}, {"-1", "H", "W"}), "float32[N,H,W]");
  EXPECT_EQ(inferred({"N", "H"}, {"-1", "4"}), "float32[(H*N)//4,4]");
  EXPECT_EQ(inferred({"N", "4"}, {"-1"}), "float32[N*4]");
  EXPECT_EQ(infer_op("Reshape", {}, {{DType::FLOAT32, {"N"}}, {DType::INT64, {"3"}}}).type(), "float32[?0,?1,?2]");
  EXPECT_EQ(infer_op("Reshape", {}, {{DType::FLOAT32, {"N"}}, {DType::INT64, {"K"}}}).type(), "float32[*]");
}

// A computed size of 0 copies the input's dim. Where that cannot matter the size stays as it is.
TEST(View, ReshapeToAComputedSize) {
  EXPECT_EQ(inferred({"B", "T", "C"}, {"B*T", "C"}), "float32[B*T,C]");
  EXPECT_EQ(inferred({"B", "12", "T", "64"}, {"B*12", "T", "64"}), "float32[B*12,T,64]");
  EXPECT_EQ(inferred({"B*12", "T", "T"}, {"B", "12", "T", "T"}), "float32[B,12,T,T]");
  EXPECT_EQ(inferred({"B", "12", "T", "64"}, {"B*12", "-1", "64"}), "float32[B*12,T,64]");
  EXPECT_EQ(inferred({"N", "H", "W", "3"}, {"N", "H//7", "7", "W//7", "7", "3"}), "float32[N,H//7,7,W//7,7,3]");
  EXPECT_EQ(inferred({"N", "4"}, {"M+1", "4"}), "float32[M+1,4]");
  EXPECT_EQ(inferred({"3", "4"}, {"M", "4"}), "float32[max(-min(1,M)*3+3,M),4]");
  EXPECT_EQ(inferred({"2", "N"}, {"N", "-1"}), "float32[max(-min(1,N)*2+2,N),max(N-N*min(1,N),min(1,N)*2)]");
  EXPECT_EQ(
      infer_op("Reshape", {{"allowzero", int64_t{1}}}, {{DType::FLOAT32, {"3", "4"}}, known_values({"M", "4"})}).type(),
      "float32[M,4]");
}

TEST(View, ShapeValuesPassThroughViews) {
  const InferResult shape = infer_op("Shape", {}, {{DType::FLOAT32, {"N", "3", "H*2"}}});
  EXPECT_EQ(shape.type(), "int64[3]");
  EXPECT_EQ(shape.value(), "N,3,H*2");
  EXPECT_EQ(infer_op("Shape", {{"start", int64_t{-2}}}, {{DType::FLOAT32, {"N", "3", "H"}}}).value(), "3,H");
  EXPECT_EQ(infer_op("Size", {}, {{DType::FLOAT32, {"N", "3", "H"}}}).value(), "H*N*3");
  EXPECT_EQ(infer_op("Squeeze", {}, {known_values({"N"}), InferInput(i64({1}, {0}))}).value(), "N");
  EXPECT_EQ(infer_op("Reshape", {}, {known_values({"N"}), InferInput(i64({1}, {-1}))}).value(), "N");
  InferInput scalar(DType::INT64, {});
  scalar.values = {{Dim::symbol("N")}};
  EXPECT_EQ(infer_op("Unsqueeze", {}, {scalar, InferInput(i64({1}, {0}))}).value(), "N");
  EXPECT_EQ(infer_op("Identity", {}, {scalar}).value(), "N");
}

TEST(View, SqueezeAndUnsqueeze) {
  const Tensor x = iota({1, 3, 1});
  EXPECT_EQ(run1("Squeeze", {x, i64({1}, {0})}).dims().to_string(), "[3,1]");
  EXPECT_EQ(run1("Squeeze", {x, i64({1}, {-1})}).dims().to_string(), "[1,3]");
  EXPECT_EQ(run1("Squeeze", {x}).dims().to_string(), "[3]");
  EXPECT_EQ(error_code_of([&] { run1("Squeeze", {x, i64({1}, {1})}); }), Code::SHAPE_MISMATCH);
  EXPECT_EQ(error_code_of([&] { run1("Squeeze", {x, i64({1}, {3})}); }), Code::ATTRIBUTE);
  EXPECT_EQ(run1("Unsqueeze", {iota({3}), i64({2}, {0, -1})}).dims().to_string(), "[1,3,1]");
  EXPECT_EQ(run1("Unsqueeze", {iota({}), i64({1}, {0})}).dims().to_string(), "[1]");
  EXPECT_EQ(error_code_of([&] { run1("Unsqueeze", {x, i64({2}, {0, 0})}); }), Code::ATTRIBUTE);
}

TEST(View, Flatten) {
  const Tensor x = iota({2, 3, 4});
  EXPECT_EQ(run1("Flatten", {x}).dims().to_string(), "[2,12]");
  EXPECT_EQ(run1("Flatten", {x}, {{"axis", int64_t{0}}}).dims().to_string(), "[1,24]");
  EXPECT_EQ(run1("Flatten", {x}, {{"axis", int64_t{3}}}).dims().to_string(), "[24,1]");
  EXPECT_EQ(run1("Flatten", {x}, {{"axis", int64_t{-1}}}).dims().to_string(), "[6,4]");
  EXPECT_EQ(infer_op("Flatten", {}, {{DType::FLOAT32, {"N", "3", "H"}}}).type(), "float32[N,H*3]");
}

TEST(View, ShapeAndSizeOfData) {
  const Tensor x = iota({2, 3, 4});
  expect_equal(run1("Shape", {x}), i64({3}, {2, 3, 4}));
  expect_equal(run1("Shape", {x}, {{"start", int64_t{1}}, {"end", int64_t{-1}}}), i64({1}, {3}));
  expect_equal(run1("Shape", {x}, {{"start", int64_t{2}}, {"end", int64_t{1}}}), i64({0}, {}));
  expect_equal(run1("Shape", {x}, {{"start", int64_t{-9}}, {"end", int64_t{9}}}), i64({3}, {2, 3, 4}));
  expect_equal(run1("Size", {x}), i64({}, {24}));
}

}  // namespace deepjit
