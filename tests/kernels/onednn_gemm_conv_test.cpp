// Convolutions as matrix products give what the op's reference gives.
#include <omp.h>

#include "provider_test_util.h"

namespace deepjit {
namespace {

using Ints = std::vector<int64_t>;
using Strings = std::vector<std::string>;

// Checks all tactics; expects one of the given mode and no failure.
void check_mode(const std::string& mode, const StepCase& c) {
  const std::vector<std::string> variants = check_provider(onednn_offerer(), onednn_launcher(), c, 1e-4);
  const bool found = std::any_of(variants.begin(), variants.end(),
                                 [&](const std::string& name) { return name.rfind(mode + "/", 0) == 0; });
  EXPECT_TRUE(found) << c.op << " has no tactic " << mode;
}

StepCase conv(const std::string& layout, const Dims& x, const Dims& w, AttrList attrs = {}) {
  StepCase c{"deepjit.Conv", std::move(attrs), {random_f32(x, 1), random_f32(w, 2), random_f32({w[0]}, 3)}, {1, 2}};
  c.attrs.emplace_back("layout", layout);
  return c;
}

TEST(OnednnGemmConv, PointwiseChannelsLast) {
  check_mode("product", conv("NHWC", {2, 5, 7, 24}, {40, 24, 1, 1}));
  check_mode("product", conv("NHWC", {1, 1, 1, 48}, {33, 48, 1, 1}));
  check_mode("product", conv("NHWC", {2, 9, 24}, {17, 24, 1}));
}

TEST(OnednnGemmConv, PointwiseChannelsFirst) {
  check_mode("product_rows", conv("NCHW", {2, 24, 5, 7}, {40, 24, 1, 1}));
  check_mode("product_rows", conv("NCHW", {1, 24, 9}, {17, 24, 1}));
  StepCase c = conv("NCHW", {2, 24, 5, 7}, {40, 24, 1, 1});
  c.constants.clear();
  check_mode("product_rows", c);
}

TEST(OnednnGemmConv, WindowsAlongOneAxis) {
  for (const int64_t batch : {1, 3}) {
    check_mode("product_sum", conv("NHWC", {batch, 29, 1, 16}, {48, 16, 5, 1}));
    check_mode("product_sum", conv("NHWC", {batch, 1, 29, 16}, {48, 16, 1, 3}, {{"strides", Ints{1, 2}}}));
    check_mode("product_sum", conv("NHWC", {batch, 29, 20}, {21, 20, 4}, {{"strides", Ints{3}}}));
    check_mode("product_sum", conv("NHWC", {batch, 29, 20}, {21, 20, 4}, {{"dilations", Ints{2}}}));
  }
}

TEST(OnednnGemmConv, CopiedWindows) {
  for (const char* layout : {"NHWC", "NCHW"}) {
    const bool last = std::string(layout) == "NHWC";
    check_mode("product", conv(layout, last ? Dims{2, 9, 19} : Dims{2, 19, 9}, {32, 19, 3}, {{"pads", Ints{1, 1}}}));
    check_mode("product", conv(layout, last ? Dims{2, 40, 1} : Dims{2, 1, 40}, {34, 1, 16}, {{"strides", Ints{8}}}));
    check_mode("product", conv(layout, last ? Dims{1, 9, 11, 5} : Dims{1, 5, 9, 11}, {24, 5, 3, 3},
                               {{"strides", Ints{2, 1}}, {"pads", Ints{1, 0, 2, 1}}}));
    check_mode("product", conv(layout, last ? Dims{2, 9, 11, 20} : Dims{2, 20, 9, 11}, {24, 20, 3, 2},
                               {{"dilations", Ints{2, 3}}, {"pads", Ints{2, 3, 1, 2}}}));
    check_mode("product", conv(layout, last ? Dims{1, 4, 5, 6, 8} : Dims{1, 8, 4, 5, 6}, {16, 8, 3, 3, 2}));
    // One window over the whole image.
    check_mode("product", conv(layout, last ? Dims{3, 4, 5, 8} : Dims{3, 8, 4, 5}, {16, 8, 4, 5}));
  }
}

TEST(OnednnGemmConv, Epilogue) {
  for (const char* layout : {"NCHW", "NHWC"}) {
    const bool last = std::string(layout) == "NHWC";
    const Dims channel = last ? Dims{48} : Dims{48, 1, 1};
    const Dims y = last ? Dims{2, 25, 1, 48} : Dims{2, 48, 25, 1}, one = last ? Dims{2, 1, 1, 48} : Dims{2, 48, 1, 1};
    for (const Strings& list : std::vector<Strings>{
             {"GeluTanh"}, {"Gelu"}, {"HardSwish", "Mul($3)", "Add($4)"}, {"Add($5)", "Relu"}, {"Mul($6)"}}) {
      const auto with_list = [&](const Dims& x, const Dims& w) {
        StepCase c = conv(layout, x, w, {{"epilogue", list}});
        for (const auto& [dims, seed] : {std::pair<Dims, int>{channel, 4}, {Dims{1}, 5}, {y, 6}, {one, 7}}) {
          c.inputs.push_back(random_f32(dims, static_cast<uint32_t>(seed)));
        }
        return c;
      };
      const StepCase pointwise = with_list(last ? Dims{2, 25, 1, 24} : Dims{2, 24, 25, 1}, {48, 24, 1, 1});
      if (list[0] == "Mul($6)") {  // differs between images: no product takes it
        check_provider(onednn_offerer(), onednn_launcher(), pointwise);
        continue;
      }
      check_mode(last ? "product" : "product_rows", pointwise);
      if (last) check_mode("product_sum", with_list({2, 29, 1, 24}, {48, 24, 5, 1}));
      const bool unary = list.size() == 1 && list[0].find('$') == std::string::npos;
      if (unary) check_mode("product", with_list(last ? Dims{2, 29, 1, 24} : Dims{2, 24, 29, 1}, {48, 24, 5, 1}));
    }
  }
}

// Products with subnormal weights are slow, so packing makes them 0; the result is the same.
TEST(OnednnGemmConv, SubnormalWeights) {
  StepCase c = conv("NHWC", {1, 5, 7, 24}, {40, 24, 1, 1});
  for (int64_t i = 0; i < c.inputs[1].count(); i += 3) c.inputs[1].as<float>()[i] = 1e-40f;
  const std::vector<Tensor> expected = run_op(c.op, c.attrs, c.inputs, 1);
  const BoundCase bound(c, expected);
  for (Tactic tactic : onednn_offerer().offer(bound.shape).tactics) {
    SCOPED_TRACE(tactic.variant);
    const std::unique_ptr<Kernel> kernel = onednn_launcher().make(bound.shape, tactic);
    ASSERT_NE(kernel, nullptr);
    EXPECT_LE(relative_error(run_kernel(*kernel, c, expected)[0], expected[0]), 1e-6);
    onednn_offerer().pack(bound.shape, tactic);
    for (const PackedOperand& packed : tactic.packed) {
      const Tensor plain = onednn_launcher().unpack(packed, c.inputs[1].view().desc());
      EXPECT_EQ(plain.as<float>()[0], 0.0f);
      EXPECT_EQ(plain.as<float>()[1], c.inputs[1].as<float>()[1]);
    }
  }
}

// Steps on both sides of the size up to which one thread does it all.
TEST(OnednnGemmConv, Threads) {
  for (const int64_t channels : {32, 256}) {
    const StepCase c = conv("NHWC", {1, 200, 1, channels}, {96, channels, 5, 1});
    const std::vector<Tensor> expected = run_op(c.op, c.attrs, c.inputs, 1);
    BoundCase bound(c, expected);
    bound.shape.threads = 2;
    const int before = omp_get_max_threads();
    omp_set_num_threads(2);
    for (const Tactic& tactic : onednn_offerer().offer(bound.shape).tactics) {
      SCOPED_TRACE(tactic.variant);
      const std::unique_ptr<Kernel> kernel = onednn_launcher().make(bound.shape, tactic);
      ASSERT_NE(kernel, nullptr);
      EXPECT_LE(relative_error(run_kernel(*kernel, c, expected)[0], expected[0]), 1e-5);
      EXPECT_EQ(omp_get_max_threads(), 2);
    }
    omp_set_num_threads(before);
  }
}

TEST(OnednnGemmConvTranspose, WindowsThatDoNotOverlap) {
  for (const char* layout : {"NHWC", "NCHW"}) {
    const bool last = std::string(layout) == "NHWC";
    const Dims x = last ? Dims{2, 9, 7, 24} : Dims{2, 24, 9, 7}, line = last ? Dims{2, 9, 24} : Dims{2, 24, 9};
    const auto deconv = [&](const Dims& image, const Dims& w, const Ints& strides, const Strings& epilogue) {
      return StepCase{"deepjit.ConvTranspose",
                      {{"layout", std::string(layout)}, {"strides", strides}, {"epilogue", epilogue}},
                      {random_f32(image, 1), random_f32(w, 2), random_f32({w[1]}, 3), random_f32({1}, 4)},
                      {1, 2}};
    };
    for (const int64_t channels : {1, 3, 24}) {
      check_mode("product", deconv(x, {24, channels, 2, 2}, {2, 2}, {"Sigmoid"}));
      check_mode("product", deconv(x, {24, channels, 1, 3}, {1, 3}, {"Add($3)", "Relu"}));
      check_mode("product", deconv(x, {24, channels, 3, 1}, {3, 1}, {"Relu"}));
      check_mode("product", deconv(line, {24, channels, 4}, {4}, {"Relu"}));
    }
    // Overlapping windows and a channel operand are left to the others.
    check_provider(onednn_offerer(), onednn_launcher(), deconv(x, {24, 8, 3, 3}, {2, 2}, {"Relu"}));
  }
}

}  // namespace
}  // namespace deepjit
