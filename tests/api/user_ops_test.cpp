// Ops of the user through the C++ API: references, all or none, threads.
#include "deepjit/user_ops.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <thread>

#include "onnx-ml.pb.h"

namespace {

using deepjit::DataType;
using deepjit::Input;
using deepjit::OpAttributes;
using deepjit::OpDefinition;
using deepjit::OpResult;
using deepjit::OpTest;

constexpr const char* kSwish = "my.ops::Swish";

OpDefinition definition(const std::string& name, const std::string& expression,
                        const std::vector<std::string>& inputs = {"x"}) {
  OpDefinition d;
  d.name = name;
  d.inputs = inputs;
  d.expression = expression;
  return d;
}

OpDefinition swish() {
  OpDefinition d = definition(kSwish, "x * sigmoid(alpha * x) + b", {"x", "b"});
  d.attributes["alpha"] = 1;
  return d;
}

OpTest swish_test() {
  return {deepjit::elementwise(
              [](auto v, const OpAttributes& a) { return v[0] / (1 + std::exp(-a.at("alpha") * v[0])) + v[1]; }),
          {DataType::FLOAT32}};
}

// The code of the Error that `body` throws, and its text in `what`; 0 when it throws none.
template <typename F>
int code_of(F&& body, std::string* what = nullptr) {
  try {
    body();
  } catch (const deepjit::Error& e) {
    if (what != nullptr) *what = e.what();
    return e.code();
  }
  return 0;
}

OpTest unchecked() { return {nullptr, {}, 0, false}; }

class UserOpsTest : public testing::Test {
 protected:
  void TearDown() override {
    for (const std::string& name : deepjit::registered_ops()) deepjit::forget_op(name);
  }
};

TEST_F(UserOpsTest, AnOpIsTestedAgainstItsReferenceAndRuns) {
  const deepjit::OpReport report = deepjit::register_op(swish(), swish_test());
  EXPECT_EQ(report.op, kSwish);
  EXPECT_TRUE(report.with_reference);
  EXPECT_GT(report.cases, 40u);  // 3 layouts, 5 sizes, 3 kinds of values
  EXPECT_GT(report.elements, report.cases);
  EXPECT_GT(report.largest_error, 0);
  EXPECT_LT(report.largest_error, 1e-5);
  EXPECT_EQ(report.generated, std::vector{DataType::FLOAT32});
  const auto model = deepjit::model_of_op(kSwish, DataType::FLOAT32, {{"N", "4"}, {"4"}});
  deepjit::BuildOptions options;
  options.threads = 1;
  deepjit::Context context = deepjit::build(model, options).create_context();
  const float x[] = {1, 2, 3, 4, -1, -2, -3, -4};
  const float b[] = {1, 2, 3, 4};
  const auto& outputs = context.run({{"x", DataType::FLOAT32, {2, 4}, x}, {"b", DataType::FLOAT32, {4}, b}});
  const auto* y = static_cast<const float*>(outputs.at(0).data);
  for (int i = 0; i < 8; ++i) EXPECT_NEAR(y[i], x[i] / (1 + std::exp(-x[i])) + b[i % 4], 1e-5);
}

TEST_F(UserOpsTest, ElementwiseTakesOtherTypes) {
  OpTest test = swish_test();
  test.dtypes = {DataType::FLOAT16, DataType::FLOAT64};
  test.tolerance = 1e-2;  // this reference rounds once, steps of float16 round each: a sum of both signs shows it
  EXPECT_EQ(deepjit::register_op(swish(), test).generated, std::vector{DataType::FLOAT16});  // no sigmoid of float64
  const OpDefinition pick = definition("my.ops::Pick", "where(m and k > 2, x, -1)", {"x", "m: bool", "k: int64"});
  test.reference = deepjit::elementwise(
      [](auto v, const OpAttributes&) { return v[1] != 0 && v[2] > 2 ? static_cast<double>(v[0]) : -1; });
  test.dtypes.clear();
  test.tolerance = 0;
  EXPECT_EQ(deepjit::register_op(pick, test).largest_error, 0);
}

TEST_F(UserOpsTest, CheckOpTestsAgain) {
  std::atomic<int> calls = 0;
  OpTest test = unchecked();
  test.dtypes = {DataType::FLOAT64};
  test.reference = [&](const std::vector<Input>& inputs, const OpAttributes&) {
    ++calls;
    EXPECT_EQ(inputs.at(0).name, "x");
    EXPECT_EQ(inputs.at(0).dtype, DataType::FLOAT64);
    OpResult y(inputs[0].dtype, inputs[0].shape);
    const auto x = deepjit::values_of<double>(inputs[0]);
    for (size_t i = 0; i < x.size(); ++i) y.values<double>()[i] = x[i] + x[i];
    return std::vector{y};
  };
  EXPECT_EQ(deepjit::register_op(definition("my.ops::Twice", "2 * x"), test).cases, 0u);
  EXPECT_EQ(calls, 0);
  const deepjit::OpReport report = deepjit::check_op("my.ops::Twice");
  EXPECT_EQ(report.cases, static_cast<size_t>(calls));
  EXPECT_EQ(report.largest_error, 0);
  EXPECT_EQ(deepjit::check_op("my.ops::Twice").elements, report.elements);
}

// y = x / rms(x) * w over the last axis.
std::vector<OpResult> rms_norm(const std::vector<Input>& inputs, const OpAttributes& attributes) {
  const auto x = deepjit::values_of<float>(inputs[0]);
  const auto w = deepjit::values_of<float>(inputs[1]);
  const size_t n = w.size();
  OpResult y(inputs[0].dtype, inputs[0].shape);
  for (size_t row = 0; row * n < x.size(); ++row) {
    double sum = 0;
    for (size_t i = 0; i < n; ++i) sum += static_cast<double>(x[row * n + i]) * x[row * n + i];
    const double scale = 1 / std::sqrt(sum / static_cast<double>(n) + attributes.at("epsilon"));
    for (size_t i = 0; i < n; ++i) y.values<float>()[row * n + i] = static_cast<float>(x[row * n + i] * scale * w[i]);
  }
  return {y};
}

OpDefinition rms() {
  OpDefinition d = definition("my.ops::RmsNorm", "x * reciprocal(sqrt(mean(x * x) + epsilon)) * w", {"x", "w"});
  d.attributes["epsilon"] = 1e-5;
  d.shape = "[..., C], [C] -> [..., C]";
  return d;
}

TEST_F(UserOpsTest, AnOpOverRows) {
  const deepjit::OpReport report = deepjit::register_op(rms(), {rms_norm, {DataType::FLOAT32}, 1e-4});
  EXPECT_EQ(report.generated, std::vector{DataType::FLOAT32});
}

TEST_F(UserOpsTest, AWrongReferenceIsToldAndNothingStays) {
  OpTest wrong = swish_test();
  wrong.reference = deepjit::elementwise(
      [](auto v, const OpAttributes& a) { return v[0] / (1 + std::exp(-a.at("alpha") * v[0])) + v[1] * 1.5; });
  std::string text;
  EXPECT_EQ(code_of([&] { deepjit::register_op(swish(), wrong); }, &text), 506);
  EXPECT_NE(text.find("op my.ops::Swish, step by step: output \"y\" of x float32"), std::string::npos) << text;
  EXPECT_NE(text.find("the reference says"), std::string::npos) << text;
  EXPECT_NE(text.find("(x = "), std::string::npos) << text;
  EXPECT_NE(text.find("elements differ by more than"), std::string::npos) << text;
  EXPECT_TRUE(deepjit::registered_ops().empty());
  deepjit::register_op(swish(), swish_test());
  const OpTest half = {deepjit::elementwise([](auto v, const OpAttributes&) { return v[0] / 2; })};
  EXPECT_EQ(code_of([&] { deepjit::register_op(definition(kSwish, "x + 1"), half, true); }), 506);
  EXPECT_TRUE(deepjit::check_op(kSwish).with_reference);
}

TEST_F(UserOpsTest, ReferencesThatDoNotFit) {
  const auto with = [](deepjit::OpReference reference) {
    return [reference] { deepjit::register_op(definition("my.ops::Twice", "x + x"), {reference}); };
  };
  std::string text;
  EXPECT_EQ(code_of(with([](const auto&, const auto&) { return std::vector<OpResult>(); }), &text), 804);
  EXPECT_NE(text.find("gives 0 results, the op has 1 outputs"), std::string::npos) << text;
  const auto row = [](const auto& inputs, const auto&) { return std::vector{OpResult(inputs[0].dtype, {3})}; };
  EXPECT_EQ(code_of(with(row), &text), 506);
  EXPECT_NE(text.find("has shape"), std::string::npos) << text;
  const auto cut = [](const auto& inputs, const auto&) {
    OpResult y(inputs[0].dtype, inputs[0].shape);
    y.bytes.pop_back();
    return std::vector{y};
  };
  EXPECT_EQ(code_of(with(cut), &text), 804);
  EXPECT_EQ(code_of([] { OpResult(DataType::FLOAT32, {2, -1}); }), 804);
  EXPECT_EQ(code_of([] { OpResult(DataType::STRING, {2}); }), 804);
  EXPECT_THROW(with([](const auto&, const auto&) -> std::vector<OpResult> { throw std::out_of_range("mine"); })(),
               std::out_of_range);
  EXPECT_TRUE(deepjit::registered_ops().empty());
}

TEST_F(UserOpsTest, AllOrNone) {
  const OpDefinition good = definition("my.ops::A", "x + 1");
  const OpDefinition other = definition("my.ops::B", "x + 2");
  for (const OpDefinition& bad :
       {definition("my.ops::C", "x +"), definition("my.ops::A", "x + 3"), definition("B", "x + 3")}) {
    const std::vector<deepjit::TestedOp> ops = {{good, unchecked()}, {other, unchecked()}, {bad, unchecked()}};
    EXPECT_EQ(code_of([&] { deepjit::register_ops(ops); }), 804);
    EXPECT_EQ(code_of([&] { deepjit::register_ops(ops, true); }), 804);
    EXPECT_TRUE(deepjit::registered_ops().empty());
  }
  deepjit::register_op(other, unchecked());
  const std::vector<deepjit::TestedOp> clash = {{good, unchecked()}, {definition("my.ops::B", "x + 9"), unchecked()}};
  EXPECT_EQ(code_of([&] { deepjit::register_ops(clash); }), 803);
  EXPECT_EQ(deepjit::registered_ops(), std::vector<std::string>{"my.ops::B"});
  EXPECT_EQ(deepjit::register_ops(clash, true).size(), 2u);
  EXPECT_EQ(deepjit::registered_ops(), (std::vector<std::string>{"my.ops::A", "my.ops::B"}));
  const char* json = R"({"ops": [{"name": "my.ops::D", "inputs": "x", "expression": "x"},
                                 {"name": "my.ops::E", "inputs": "x", "expression": "z"}]})";
  EXPECT_EQ(code_of([&] { deepjit::register_ops(json); }), 804);
  EXPECT_EQ(deepjit::registered_ops().size(), 2u);
}

TEST_F(UserOpsTest, OneSpelling) {
  deepjit::register_op(swish(), unchecked());
  EXPECT_EQ(deepjit::registered_ops(), std::vector<std::string>{kSwish});
  std::string text;
  EXPECT_FALSE(deepjit::forget_op("my.ops.Swish"));
  EXPECT_EQ(code_of([] { deepjit::check_op("my.ops.Swish"); }, &text), 804);
  EXPECT_NE(text.find("registered are my.ops::Swish"), std::string::npos) << text;
  EXPECT_EQ(code_of([] { deepjit::model_of_op("my::ops.Swish", DataType::FLOAT32, {{}, {}}); }), 804);
  EXPECT_TRUE(deepjit::forget_op(kSwish));
  EXPECT_FALSE(deepjit::forget_op(kSwish));
}

// my.ops::A of x minus my.ops::B of x.
std::string difference_model() {
  onnx::ModelProto model;
  model.set_ir_version(8);
  model.add_opset_import()->set_version(20);
  auto* opset = model.add_opset_import();
  opset->set_domain("my.ops");
  opset->set_version(1);
  onnx::GraphProto& graph = *model.mutable_graph();
  graph.set_name("g");
  const auto node = [&](const char* domain, const char* op, const std::vector<std::string>& in, const char* out) {
    onnx::NodeProto& n = *graph.add_node();
    n.set_domain(domain);
    n.set_op_type(op);
    for (const std::string& name : in) n.add_input(name);
    n.add_output(out);
  };
  node("my.ops", "A", {"x"}, "a");
  node("my.ops", "B", {"x"}, "b");
  node("", "Sub", {"a", "b"}, "y");
  for (auto* info : {graph.add_input(), graph.add_output()}) {
    auto* type = info->mutable_type()->mutable_tensor_type();
    type->set_elem_type(1);
    type->mutable_shape()->add_dim()->set_dim_value(2);
  }
  graph.mutable_input(0)->set_name("x");
  graph.mutable_output(0)->set_name("y");
  return model.SerializeAsString();
}

// One thread gives two ops another definition over and over, always both at once; others build models of both.
TEST_F(UserOpsTest, BuildsSeeTheOldOpsOrTheNewOnes) {
  const auto set = [](int k) {
    const std::string text = "x + " + std::to_string(k);
    deepjit::register_ops({{definition("my.ops::A", text), unchecked()}, {definition("my.ops::B", text), unchecked()}},
                          true);
  };
  set(0);
  const std::string model = difference_model();
  std::atomic<bool> ended = false;
  std::atomic<int> wrong = 0;
  const auto builds = [&] {
    deepjit::BuildOptions options;
    options.threads = 1;
    options.tune = false;
    for (int i = 0; i < 40; ++i) {
      deepjit::Context context = deepjit::build(std::as_bytes(std::span(model)), options).create_context();
      const float x[] = {0.5, 2};
      const auto* y = static_cast<const float*>(context.run({{"x", DataType::FLOAT32, {2}, x}}).at(0).data);
      wrong += y[0] != 0 || y[1] != 0;
    }
    ended = true;
  };
  std::thread first(builds);
  std::thread second(builds);
  for (int k = 1; !ended; ++k) {
    set(k % 1000);
    deepjit::forget_op("my.ops::C");
    deepjit::register_op(definition("my.ops::C", "x"), unchecked(), true);
  }
  first.join();
  second.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(UserOpsTest, ThreadsThatRegisterOneName) {
  std::atomic<int> registered = 0;
  std::atomic<int> refused = 0;
  std::vector<std::thread> threads;
  for (int k = 0; k < 4; ++k) {
    threads.emplace_back([&, k] {
      OpTest test;
      test.dtypes = {DataType::FLOAT32};
      const int code =
          code_of([&] { deepjit::register_op(definition("my.ops::A", "x + " + std::to_string(k)), test); });
      ++(code == 0 ? registered : refused);
      EXPECT_TRUE(code == 0 || code == 803) << code;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(registered, 1);
  EXPECT_EQ(refused, 3);
}

TEST_F(UserOpsTest, JsonThatIsNoneSaysWhere) {
  struct Bad {
    const char* json;
    const char* words;
  };
  const Bad all[] = {
      {"{\"ops\": [\n  {\"name\": \"my.ops::A\" \"inputs\": 1}]}", "line 2, column 31"},
      {"{\"ops\": [", "line 1, column 10"},
      {"", "this is no JSON"},
      {R"({"ops": [{"name": "my.ops::A", "inputs": "x"}]})", "op 1 (my.ops::A): \"expression\" is missing"},
      {R"({"ops": [{"name": "my.ops::A", "inputs": "x", "expression": "x"}, {"inputs": 1}]})",
       "op 2: \"inputs\" must be"},
      {R"({"ops": [{"name": "my.ops::A", "name": "my.ops::B"}]})", "the key \"name\" is given twice"},
      {R"({"ops": [{"name": "my.ops::A", "inputs": "x", "expression": ["x +", "1"], "shape": []}]})", "\"shape\" must"},
      {R"({"ops": [{"name": "my.ops::A", "inputs": "x", "expression": "x", "attributes": {"a": "1"}}]})",
       "attribute \"a\""},
      {R"({"ops": [{"name": "my.ops::A", "inputs": "x", "expression": "x", "attributes": {"a": 1e999}}]})", "no JSON"},
  };
  for (const Bad& bad : all) {
    std::string text;
    EXPECT_EQ(code_of([&] { deepjit::register_ops(std::string(bad.json)); }, &text), 804) << bad.json;
    EXPECT_NE(text.find(bad.words), std::string::npos) << text;
    EXPECT_NE(text.find("hint: "), std::string::npos) << text;
  }
  EXPECT_TRUE(deepjit::registered_ops().empty());
}

}  // namespace
