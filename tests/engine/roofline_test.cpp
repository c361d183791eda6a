// Measured times against what a GPU can do, by hand for one H200.
#include "tune/roofline.h"

#include <gtest/gtest.h>

#include "device/limits.h"

namespace deepjit {
namespace {

device::Info h200() {
  device::Info info;
  info.kind = "cuda";
  info.architecture = 90;
  info.processors = 132;
  info.l2_bytes = size_t{50} << 20;
  info.clock_khz = 1'980'000;
  info.memory_clock_khz = 3'201'000;
  info.memory_bus_bits = 6144;
  return info;
}

// A step over operands of these types and shapes.
struct Case {
  Step step;
  StepShape shape;
  Case(const std::string& op, std::vector<TensorDesc> inputs, std::vector<TensorDesc> outputs) {
    step.op = op;
    step.name = "the " + op;
    for (size_t i = 0; i < inputs.size(); ++i) step.inputs.push_back(static_cast<int32_t>(i));
    shape.step = &step;
    shape.inputs = std::move(inputs);
    shape.outputs = std::move(outputs);
  }
  Roofline at(double us) const { return roofline_of(shape, us, h200()).value(); }
};

const TensorDesc kHalf{DType::FLOAT16, {4096, 4096}};
const TensorDesc kFloat{DType::FLOAT32, {4096, 4096}};

TEST(Roofline, PeaksOfAGpu) {
  const device::Peaks peaks = device::peaks_of(h200());
  EXPECT_NEAR(peaks.memory_gb_s, 4917, 1);            // said to be 4.8 TB/s
  EXPECT_NEAR(peaks.gflop_s, 66'900, 100);            // 67 TFLOP/s
  EXPECT_NEAR(peaks.tensor_gflop_s, 1'070'500, 500);  // 989 TFLOP/s at a lower clock
  device::Info silent = h200();
  silent.clock_khz = 0;
  EXPECT_EQ(device::peaks_of(silent).gflop_s, 0);
  const Case add("Add", {kFloat, kFloat}, {kFloat});
  EXPECT_FALSE(roofline_of(add.shape, 10, silent).has_value());
  EXPECT_FALSE(roofline_of(add.shape, 0, h200()).has_value());
}

TEST(Roofline, BytesOfElementwiseWork) {
  const Case add("Add", {kFloat, kFloat}, {kFloat});  // 201 MB: 40.9 us
  EXPECT_NEAR(add.at(100).of_memory, 0.409, 0.002);
  EXPECT_FALSE(add.at(100).flagged);
  EXPECT_TRUE(add.at(140).flagged);
  EXPECT_FALSE(add.at(40).suspicious);  // the L2 holds a fourth
  EXPECT_TRUE(add.at(30).suspicious);
  Case square("Mul", {kFloat, kFloat}, {kFloat});
  square.step.inputs = {0, 0};
  EXPECT_NEAR(square.at(100).of_memory, 0.273, 0.002);
}

TEST(Roofline, OperationsOfProducts) {
  const Case half("MatMul", {kHalf, kHalf}, {kHalf});  // 137 GFLOP: 128 us in tensor cores
  EXPECT_NEAR(half.at(200).of_arithmetic, 0.642, 0.002);
  EXPECT_TRUE(half.at(500).flagged);
  EXPECT_TRUE(half.at(50).suspicious);
  EXPECT_FALSE(half.at(60).suspicious);
  const Case single("MatMul", {kFloat, kFloat}, {kFloat});  // 2054 us in lanes
  EXPECT_NEAR(single.at(4000).of_arithmetic, 0.514, 0.002);
}

TEST(Roofline, ShortStepsAreNotFlagged) {
  const TensorDesc row{DType::FLOAT32, {64}};
  const Case add("Add", {row, row}, {row});
  EXPECT_FALSE(add.at(3).flagged);
  EXPECT_TRUE(add.at(6).flagged);
}

TEST(Roofline, ATableIsReadInPart) {
  const Case gather("Gather", {kFloat, {DType::INT64, {4}}}, {{DType::FLOAT32, {4, 4096}}});
  EXPECT_LT(gather.at(3).of_memory, 0.01);
  EXPECT_FALSE(gather.at(0.001).suspicious);
}

TEST(Roofline, ARegionDoesWhatItsStepsDo) {
  Case region("deepjit.Region", {kFloat}, {kFloat});
  const Case exp("Exp", {kFloat}, {kFloat}), add("Add", {kFloat, kFloat}, {kFloat});
  region.shape.body = {exp.shape, add.shape};
  EXPECT_NEAR(region.at(1).of_arithmetic, 2 * 4096.0 * 4096 / 66'908e3, 1e-3);
}

TEST(RooflineReport, WhatCostsMostComesFirst) {
  const TensorDesc row{DType::FLOAT32, {64}};
  Case a("Exp", {row}, {row}), b("Tanh", {row}, {row}), fine("Add", {kFloat, kFloat}, {kFloat});
  b.step.tactic.provider = "nvrtc";
  b.step.tactic.variant = "b256";
  RooflineReport report;
  report.add("a", a.step, 20, a.at(20));
  for (int i = 0; i < 3; ++i) report.add("b", b.step, 8, b.at(8));
  report.add("fine", fine.step, 60, fine.at(60));
  const std::vector<std::string> lines = report.flagged();
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0],
            "the Tanh Tanh and 2 like it: nvrtc:b256 takes 8.0 us, 0% of the memory's peak, 0% of the "
            "arithmetic's");
  EXPECT_EQ(lines[1].find("the Exp Exp: "), 0u);
  EXPECT_TRUE(report.suspicious().empty());
}

}  // namespace
}  // namespace deepjit
