// From a region of ops to one kernel: boxes, strides, and the reasons for refusals.
#include "codegen/region/region.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "ops/common.h"

namespace deepjit {
namespace {

// Writes regions: values by name, float32 unless said otherwise.
class RegionText {
 public:
  int value(std::vector<Dim> dims, DType dtype = DType::FLOAT32) {
    region.values.push_back({dtype, Shape(std::move(dims))});
    region.data.push_back(nullptr);
    return static_cast<int>(region.values.size()) - 1;
  }
  int input(std::vector<Dim> dims, DType dtype = DType::FLOAT32) {
    const int v = value(std::move(dims), dtype);
    region.inputs.push_back(v);
    return v;
  }
  int op(const std::string& name, std::vector<int> inputs, std::vector<Dim> dims, const Attributes& attrs = {}) {
    attributes_.push_back(std::make_unique<Attributes>(attrs));
    RegionOp op;
    op.view.op = name;
    op.view.attrs = attributes_.back().get();
    op.inputs = inputs;
    for (int v : inputs) {
      op.view.inputs.push_back(region.values[static_cast<size_t>(v)]);
      op.view.constants.push_back(nullptr);
    }
    op.output = value(std::move(dims));
    op.view.outputs.push_back(region.values.back());
    region.ops.push_back(std::move(op));
    return region.ops.back().output;
  }
  RegionKernel build(std::vector<int> outputs) {
    region.outputs = std::move(outputs);
    return build_kernel(region);
  }
  Region region;

 private:
  std::vector<std::unique_ptr<Attributes>> attributes_;
};

const Dim N = Dim::symbol("N"), C = Dim::symbol("C"), H = Dim::symbol("H"), W = Dim::symbol("W");

TEST(Region, EqualShapesCollapseToOneAxis) {
  RegionText r;
  const int x = r.input({N, C, H, W});
  const int y = r.op("Relu", {x}, {N, C, H, W});
  const RegionKernel built = r.build({r.op("Exp", {y}, {N, C, H, W})});
  ASSERT_TRUE(built.kernel) << built.refusal.reason;
  EXPECT_EQ(built.kernel->rank(), 1u);
  EXPECT_EQ(built.kernel->extents[0].dims.size(), 4u);
  EXPECT_FALSE(built.kernel->reduces);
}

TEST(Region, ABiasPerChannelKeepsThreeAxes) {
  RegionText r;
  const int x = r.input({N, C, H, W});
  const int bias = r.input({C, 1, 1});
  const RegionKernel built = r.build({r.op("Add", {x, bias}, {N, C, H, W})});
  ASSERT_TRUE(built.kernel) << built.refusal.reason;
  EXPECT_EQ(built.kernel->rank(), 3u);  // N, C and H*W
}

TEST(Region, AScalarNeedsNoAxis) {
  RegionText r;
  const int x = r.input({N, 7});
  const int s = r.input({});
  const RegionKernel built = r.build({r.op("Mul", {x, s}, {N, 7})});
  ASSERT_TRUE(built.kernel) << built.refusal.reason;
  EXPECT_EQ(built.kernel->rank(), 1u);
}

TEST(Region, ANormAndItsNeighboursAreOneKernel) {
  RegionText r;
  const int x = r.input({N, H, 64});
  const int y = r.op("Relu", {x}, {N, H, 64});
  const int scale = r.input({64});
  Attributes axis;
  axis.set("axis", int64_t{-1});
  const int n = r.op("LayerNormalization", {y, scale}, {N, H, 64}, axis);
  const RegionKernel built = r.build({r.op("Add", {n, x}, {N, H, 64})});
  ASSERT_TRUE(built.kernel) << built.refusal.reason;
  EXPECT_TRUE(built.kernel->reduces);
  EXPECT_EQ(built.kernel->rank(), 2u);
  const std::vector<int> stages = built.kernel->stages();
  EXPECT_EQ(*std::max_element(stages.begin(), stages.end()), 2);  // mean, variance, result
}

TEST(Region, UnprovenBroadcastIsRefusedWithBothDims) {
  RegionText r;
  const int x = r.input({N, H});
  const int y = r.input({N, W});
  const RegionKernel built = r.build({r.op("Add", {x, y}, {N, H})});
  EXPECT_FALSE(built.kernel);
  EXPECT_NE(built.refusal.reason.find("W equals H"), std::string::npos) << built.refusal.reason;
}

TEST(Region, SoftmaxOverAnInnerAxisGoesInLanes) {
  RegionText r;
  const int x = r.input({N, C, W});
  Attributes axis;
  axis.set("axis", int64_t{1});
  const RegionKernel built = r.build({r.op("Softmax", {x}, {N, C, W}, axis)});
  ASSERT_TRUE(built.kernel) << built.refusal.reason;
  EXPECT_TRUE(built.kernel->lanes);
  EXPECT_EQ(built.kernel->rank(), 3u);
  EXPECT_EQ(built.kernel->vector_axis(), 1u);  // W, before the row C
}

TEST(Region, OuterTransposesAreStrides) {
  RegionText r;
  const int x = r.input({N, C, W});
  Attributes perm;
  perm.set("perm", std::vector<int64_t>{1, 0, 2});
  const int t = r.op("Transpose", {x}, {C, N, W}, perm);
  const RegionKernel built = r.build({r.op("Exp", {t}, {C, N, W})});
  ASSERT_TRUE(built.kernel) << built.refusal.reason;
  EXPECT_EQ(built.kernel->rank(), 3u);
}

TEST(Region, InnerTransposesAreStrides) {
  RegionText r;
  const int x = r.input({C, W});
  Attributes perm;
  perm.set("perm", std::vector<int64_t>{1, 0});
  const int t = r.op("Transpose", {x}, {W, C}, perm);
  const RegionKernel built = r.build({r.op("Exp", {t}, {W, C})});
  ASSERT_TRUE(built.kernel) << built.refusal.reason;
  EXPECT_TRUE(built.kernel->accesses[0].strides[0] == (Quantity{1, {}}));
}

TEST(Region, AReshapeThatSplitsADimCutsTheAxis) {
  RegionText r;
  const int x = r.input({N, 12, W});
  const int y = r.op("Exp", {x}, {N, 12, W});
  const int split = r.op("Reshape", {y}, {N, 3, 4, W});
  Attributes perm;
  perm.set("perm", std::vector<int64_t>{0, 2, 1, 3});
  const RegionKernel built = r.build({r.op("Transpose", {split}, {N, 4, 3, W}, perm)});
  ASSERT_TRUE(built.kernel) << built.refusal.reason;
  EXPECT_EQ(built.kernel->rank(), 4u);
}

TEST(Region, AReshapeThatMergesDimsAfterARowIsOneKernel) {
  RegionText r;
  const int x = r.input({N, C, H, W});
  const int y = r.op("Relu", {x}, {N, C, H, W});
  const RegionKernel built = r.build({r.op("Exp", {r.op("Reshape", {y}, {N * C, H * W})}, {N * C, H * W})});
  ASSERT_TRUE(built.kernel) << built.refusal.reason;
  EXPECT_EQ(built.kernel->rank(), 1u);
}

TEST(Region, AReshapeThatIsNoWalkAlongDimsIsRefused) {
  RegionText r;
  const int x = r.input({4, 6});
  Attributes perm;
  perm.set("perm", std::vector<int64_t>{1, 0});
  const int t = r.op("Transpose", {r.op("Exp", {x}, {4, 6})}, {6, 4}, perm);
  const RegionKernel built = r.build({r.op("Exp", {r.op("Reshape", {t}, {8, 3})}, {8, 3})});
  EXPECT_FALSE(built.kernel);
  EXPECT_NE(built.refusal.reason.find("merges or splits"), std::string::npos) << built.refusal.reason;
}

// Where the only value that is read in part is the other output: nothing may be stored through the part.
TEST(Region, AnOutputThatIsReadInPartIsStoredWhole) {
  RegionText r;
  const int x = r.input({1, 4});
  const int y = r.op("Exp", {x}, {1, 4});
  const int none = r.op("Expand", {r.op("Relu", {x}, {1, 4})}, {0, 4});
  const RegionKernel built = r.build({none, y});
  EXPECT_FALSE(built.kernel);
}

TEST(Region, ReductionsOverDifferentAxesAreRefused) {
  RegionText r;
  const int x = r.input({N, C, W});
  Attributes last, both;
  last.set("axis", int64_t{-1});
  both.set("axis", int64_t{1});
  const int y = r.op("LayerNormalization", {x}, {N, C, W}, last);
  const RegionKernel built = r.build({r.op("LayerNormalization", {y}, {N, C, W}, both)});
  EXPECT_FALSE(built.kernel);
  EXPECT_NE(built.refusal.reason.find("different axes"), std::string::npos) << built.refusal.reason;
}

// An operand that the kernel does not read still has a number: kernels that differ only there are two kernels.
TEST(Region, WhatIsLeftOfALargerConstantIsTheSizeItself) {
  EXPECT_TRUE(agrees_where_valid(min(W, Dim(70)), W));
  EXPECT_TRUE(agrees_where_valid(min(W + H, Dim(2)), H + W));
  EXPECT_FALSE(agrees_where_valid(min(W, Dim(1)), W));  // broadcasts
  EXPECT_FALSE(agrees_where_valid(min(W, Dim(70)), H));
  EXPECT_FALSE(agrees_where_valid(min(W + 1, Dim(70)), W));
  EXPECT_FALSE(agrees_where_valid(W, min(W, Dim(70))));
  EXPECT_FALSE(agrees_where_valid(Dim(70), W));
  EXPECT_FALSE(agrees_where_valid(N * C * H, W));  // too large to compute with
}

// What two parts of a Concat want, each at places of its own, is computed once: on what is selected.
TEST(Region, PartsOfAConcatShareWhatTheyCompute) {
  RegionText r;
  const int x = r.input({N, 4});
  const int z = r.input({N, 4});
  const auto costly = [&](int value) { return r.op("Tanh", {r.op("Neg", {value}, {N, 4})}, {N, 4}); };
  Attributes axis;
  axis.set("axis", int64_t{1});
  const int shared = costly(x);
  const auto tanhs = [&](int first, int second) {
    const RegionKernel built = r.build({r.op("Concat", {first, second}, {N, 8}, axis)});
    EXPECT_TRUE(built.kernel) << built.refusal.reason;
    const std::vector<Inst>& insts = built.kernel->insts;
    return std::count_if(insts.begin(), insts.end(), [](const Inst& inst) { return inst.op == Opcode::TANH; });
  };
  EXPECT_EQ(tanhs(shared, r.op("Abs", {shared}, {N, 4})), 1);
  EXPECT_EQ(tanhs(shared, costly(z)), 2);  // of other values: nothing is shared
}

TEST(Region, UnreadOperandsTellKernelsApart) {
  auto text = [](bool unread) {
    RegionText r;
    const int x = r.input({N});
    if (unread) r.input({C}, DType::INT64);
    return r.build({r.op("Exp", {x}, {N})}).kernel->to_string();
  };
  EXPECT_NE(text(true), text(false));
}

TEST(Region, EqualWorkIsDoneOnce) {
  RegionText r;
  const int x = r.input({N});
  const int a = r.op("Exp", {x}, {N});
  const int b = r.op("Exp", {x}, {N});
  const RegionKernel built = r.build({r.op("Add", {a, b}, {N})});
  ASSERT_TRUE(built.kernel) << built.refusal.reason;
  const auto& insts = built.kernel->insts;
  EXPECT_EQ(std::count_if(insts.begin(), insts.end(), [](const Inst& i) { return i.op == Opcode::EXP; }), 1);
}

}  // namespace
}  // namespace deepjit
