// Which part of a large result is checked while tuning, and what the reference makes of it.
#include "tune/part_reference.h"

#include <gtest/gtest.h>

#include <cstring>

#include "ops/op.h"

namespace deepjit {
namespace {

struct OneStep {
  Program program;
  StepShape shape;
  std::vector<Tensor> inputs;

  OneStep(const std::string& op, Attributes attrs, const std::vector<Dims>& dims, const Dims& result) {
    Step step;
    step.op = op;
    step.attrs = std::move(attrs);
    shape.program = &program;
    for (const Dims& d : dims) {
      step.inputs.push_back(static_cast<int32_t>(program.buffers.size()));
      program.buffers.push_back({"x", {DType::FLOAT32, Shape(d)}, false, {}});
      inputs.emplace_back(DType::FLOAT32, d);
      for (int64_t i = 0; i < inputs.back().count(); ++i) {
        inputs.back().as<float>()[i] = static_cast<float>((i * 7 + static_cast<int64_t>(inputs.size())) % 13 - 6);
      }
      shape.inputs.push_back({DType::FLOAT32, d});
      shape.constants.push_back(nullptr);
    }
    step.outputs.push_back(static_cast<int32_t>(program.buffers.size()));
    program.buffers.push_back({"y", {DType::FLOAT32, Shape(result)}, false, {}});
    program.steps.push_back(std::move(step));
    shape.step = &program.steps[0];
    shape.outputs.push_back({DType::FLOAT32, result});
  }

  Tensor whole() const {
    std::vector<void*> from;
    for (const Tensor& t : inputs) from.push_back(t.view().data);
    Tensor result(DType::FLOAT32, shape.outputs[0].dims);
    void* to = result.view().data;
    reference_launcher().make(shape, Tactic{})->run({from.data(), &to, nullptr});
    return result;
  }
};

void expect_part(const OneStep& step, int64_t count) {
  ASSERT_EQ(places_to_check(step.shape), count) << step.shape.step->op;
  const Tensor part = reference_of_places(step.shape, step.inputs, count)[0];
  const Tensor wanted = last_places(step.whole(), count);
  ASSERT_EQ(part.dims(), wanted.dims());
  EXPECT_EQ(0, std::memcmp(part.view().data, wanted.view().data, static_cast<size_t>(part.bytes())));
}

Attributes layout_nhwc() {
  Attributes attrs;
  attrs.set("layout", std::string("NHWC"));
  attrs.set("epilogue", std::vector<std::string>{"Add($3)"});
  return attrs;
}

TEST(PartReference, TheLastImagesOrRows) {
  expect_part({"deepjit.Conv", layout_nhwc(), {{3, 64, 64, 4}, {40, 4, 1, 1}, {40}, {3, 64, 64, 40}}, {3, 64, 64, 40}},
              1);
  expect_part({"MatMul", {}, {{1100, 16}, {16, 300}}, {1100, 300}}, 64);
  expect_part({"MatMul", {}, {{300, 300}, {300, 1000}}, {300, 1000}}, 64);  // as many rows as the other has
  expect_part({"MatMul", {}, {{5, 300, 8}, {5, 8, 200}}, {5, 300, 200}}, 1);
  expect_part({"MatMul", {}, {{5, 300, 8}, {8, 200}}, {5, 300, 200}}, 1);
}

TEST(PartReference, AllOfWhatIsSmallOrDoesNotRepeat) {
  Attributes turned;
  turned.set("transA", int64_t{1});
  EXPECT_EQ(places_to_check(OneStep("MatMul", {}, {{100, 16}, {16, 30}}, {100, 30}).shape), 0);
  EXPECT_EQ(places_to_check(OneStep("Gemm", turned, {{16, 1100}, {16, 300}}, {1100, 300}).shape), 0);
  EXPECT_EQ(places_to_check(OneStep("MatMul", {}, {{1, 300, 8}, {5, 8, 200}}, {5, 300, 200}).shape), 0);
  EXPECT_EQ(places_to_check(OneStep("Softmax", {}, {{1100, 300}}, {1100, 300}).shape), 0);
}

}  // namespace
}  // namespace deepjit
