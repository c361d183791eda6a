#include <cmath>

#include "op_test_util.h"
#include "ops/linear/conv_shape.h"

namespace deepjit {

namespace {

Tensor ramp(const Dims& dims, float scale = 0.1f, int modulus = 17) {
  Tensor t(DType::FLOAT32, dims);
  for (int64_t i = 0; i < t.count(); ++i) {
    t.as<float>()[i] = scale * static_cast<float>((i * 7 + 3) % modulus - modulus / 2);
  }
  return t;
}

struct Params {
  int64_t kernel = 3, stride = 1, pad_begin = 0, pad_end = 0, dilation = 1, group = 1;
};

AttrList attrs_of(const Params& p) {
  return {{"strides", std::vector<int64_t>{p.stride, p.stride}},
          {"pads", std::vector<int64_t>{p.pad_begin, p.pad_begin, p.pad_end, p.pad_end}},
          {"dilations", std::vector<int64_t>{p.dilation, p.dilation}},
          {"group", p.group}};
}

// The definition, in double.
Tensor naive_conv(const Tensor& x, const Tensor& w, const Tensor& b, const Params& p) {
  const Dims xd = x.dims(), wd = w.dims();
  auto out_of = [&](int64_t in) {
    return (in + p.pad_begin + p.pad_end - (p.kernel - 1) * p.dilation - 1) / p.stride + 1;
  };
  const int64_t oh = out_of(xd[2]), ow = out_of(xd[3]), mg = wd[0] / p.group;
  Tensor y(DType::FLOAT32, {xd[0], wd[0], oh, ow});
  float* out = y.as<float>();
  for (int64_t n = 0; n < xd[0]; ++n)
    for (int64_t m = 0; m < wd[0]; ++m)
      for (int64_t i = 0; i < oh; ++i)
        for (int64_t j = 0; j < ow; ++j) {
          double sum = b.defined() ? b.as<float>()[m] : 0;
          for (int64_t c = 0; c < wd[1]; ++c)
            for (int64_t u = 0; u < p.kernel; ++u)
              for (int64_t v = 0; v < p.kernel; ++v) {
                const int64_t h = i * p.stride - p.pad_begin + u * p.dilation;
                const int64_t g = j * p.stride - p.pad_begin + v * p.dilation;
                if (h < 0 || h >= xd[2] || g < 0 || g >= xd[3]) continue;
                const int64_t channel = (m / mg) * wd[1] + c;
                sum += double(x.as<float>()[((n * xd[1] + channel) * xd[2] + h) * xd[3] + g]) *
                       w.as<float>()[((m * wd[1] + c) * p.kernel + u) * p.kernel + v];
              }
          *out++ = static_cast<float>(sum);
        }
  return y;
}

// [N,C,H,W] <-> [N,H,W,C].
Tensor to_last(const Tensor& t) {
  const Dims d = t.dims();
  Tensor out(DType::FLOAT32, {d[0], d[2], d[3], d[1]});
  const int64_t hw = d[2] * d[3];
  for (int64_t n = 0; n < d[0]; ++n)
    for (int64_t c = 0; c < d[1]; ++c)
      for (int64_t i = 0; i < hw; ++i)
        out.as<float>()[(n * hw + i) * d[1] + c] = t.as<float>()[(n * d[1] + c) * hw + i];
  return out;
}

void check_both_layouts(int64_t channels, int64_t outs, int64_t height, int64_t width, const Params& p) {
  SCOPED_TRACE("k" + std::to_string(p.kernel) + " s" + std::to_string(p.stride) + " d" + std::to_string(p.dilation) +
               " g" + std::to_string(p.group));
  const Tensor x = ramp({2, channels, height, width});
  const Tensor w = ramp({outs, channels / p.group, p.kernel, p.kernel}, 0.05f, 13);
  const Tensor b = ramp({outs});
  const Tensor expected = naive_conv(x, w, b, p);
  expect_close(run_op("Conv", attrs_of(p), {x, w, b})[0], expected, 1e-5);
  AttrList last = attrs_of(p);
  last.emplace_back("layout", std::string("NHWC"));
  expect_close(run_op("deepjit.Conv", last, {to_last(x), w, b})[0], to_last(expected), 1e-5);
}

}  // namespace

TEST(Conv, MatchesTheDefinitionInBothLayouts) {
  check_both_layouts(5, 7, 9, 11, {3, 1, 1, 1, 1, 1});
  check_both_layouts(5, 7, 9, 11, {1, 1, 0, 0, 1, 1});
  check_both_layouts(5, 7, 9, 11, {1, 2, 0, 0, 1, 1});
  check_both_layouts(4, 6, 9, 11, {3, 2, 0, 1, 1, 2});
  check_both_layouts(4, 4, 9, 11, {3, 1, 2, 2, 2, 4});
  check_both_layouts(4, 8, 10, 8, {5, 2, 2, 1, 1, 4});
  check_both_layouts(1, 3, 3, 3, {3, 1, 4, 4, 1, 1});
  check_both_layouts(70, 33, 20, 21, {3, 1, 1, 1, 1, 1});
}

TEST(Conv, OneAndThreeSpatialDims) {
  expect_close(run_op("Conv", {{"pads", std::vector<int64_t>{1, 1}}},
                      {f32({1, 1, 4}, {1, 2, 3, 4}), f32({1, 1, 3}, {1, 10, 100}), none()})[0],
               f32({1, 1, 4}, {210, 321, 432, 43}));
  std::vector<float> cube(27, 1.0f);
  expect_close(run_op("Conv", {}, {f32({1, 1, 3, 3, 3}, cube), f32({1, 1, 2, 2, 2}, std::vector<float>(8, 0.5f))})[0],
               f32({1, 1, 2, 2, 2}, std::vector<float>(8, 4.0f)));
}

TEST(Conv, AutoPadPutsTheOddCellWhereItBelongs) {
  const Tensor x = f32({1, 1, 4}, {1, 2, 3, 4});
  const Tensor w = f32({1, 1, 2}, {1, 10});
  expect_equal(run_op("Conv", {{"auto_pad", std::string("SAME_UPPER")}}, {x, w})[0], f32({1, 1, 4}, {21, 32, 43, 4}));
  expect_equal(run_op("Conv", {{"auto_pad", std::string("SAME_LOWER")}}, {x, w})[0], f32({1, 1, 4}, {10, 21, 32, 43}));
  expect_equal(run_op("Conv", {{"auto_pad", std::string("VALID")}}, {x, w})[0], f32({1, 1, 3}, {21, 32, 43}));
}

TEST(Conv, EmptyBatchGivesAnEmptyResult) {
  EXPECT_EQ(run_op("Conv", {}, {Tensor(DType::FLOAT32, {0, 2, 5, 5}), ramp({3, 2, 3, 3})})[0].dims(),
            (Dims{0, 3, 3, 3}));
}

TEST(Conv, HalfAndDoubleTypes) {
  expect_equal(run_op("Conv", {}, {f16({1, 1, 3}, {1, 2, 3}), f16({1, 1, 2}, {0.5f, 0.25f})})[0],
               f16({1, 1, 2}, {1.0f, 1.75f}));
  expect_equal(run_op("Conv", {}, {bf16({1, 1, 3}, {1, 2, 3}), bf16({1, 1, 2}, {0.5f, 0.25f})})[0],
               bf16({1, 1, 2}, {1.0f, 1.75f}));
  expect_equal(run_op("Conv", {}, {f64({1, 1, 3}, {1, 2, 1e-9}), f64({1, 1, 2}, {1, 1})})[0],
               f64({1, 1, 2}, {3, 2.000000001}));
}

TEST(Conv, FusedEpilogueRunsInOrderWithOperands) {
  const Tensor x = f32({1, 1, 2, 2}, {1, -2, 3, -4});
  const Tensor w = f32({2, 1, 1, 1}, {1, -1});
  const Tensor b = f32({2}, {0.5f, 0});
  const AttrList attrs{{"epilogue", std::vector<std::string>{"Mul($3)", "Add($4)", "Relu"}}};
  const Tensor scale = f32({2, 1, 1}, {2, 3});
  const Tensor residual = f32({1, 2, 2, 2}, {0, 0, 0, 10, 0, 0, 0, -20});
  expect_equal(run_op("deepjit.Conv", attrs, {x, w, b, scale, residual})[0],
               f32({1, 2, 2, 2}, {3, 0, 7, 3, 0, 6, 0, 0}));
}

TEST(Conv, ShapeRuleKeepsSymbols) {
  const std::vector<int64_t> pads{1, 1, 1, 1};
  const InferInput w(DType::FLOAT32, {"8", "3", "3", "3"});
  EXPECT_EQ(infer_op("Conv", {{"pads", pads}}, {{DType::FLOAT32, {"N", "3", "H", "W"}}, w}).type(), "float32[N,8,H,W]");
  const AttrList strided{{"pads", pads}, {"strides", std::vector<int64_t>{2, 2}}};
  EXPECT_EQ(infer_op("Conv", strided, {{DType::FLOAT32, {"N", "3", "H", "224"}}, w}).type(),
            "float32[N,8," + Dim::parse("(H-1)//2+1").to_string() + ",112]");
  const AttrList same{{"auto_pad", std::string("SAME_UPPER")}};
  EXPECT_EQ(infer_op("Conv", same, {{DType::FLOAT32, {"N", "3", "H", "W"}}, w}).type(), "float32[N,8,H,W]");
  const AttrList last{{"layout", std::string("NHWC")}, {"pads", pads}};
  EXPECT_EQ(infer_op("deepjit.Conv", last, {{DType::FLOAT32, {"N", "H", "W", "3"}}, w}).type(), "float32[N,H,W,8]");
}

TEST(Conv, WrongNodesAreNamedByCode) {
  auto code = [](const AttrList& attrs, const std::vector<InferInput>& inputs) {
    return error_code_of([&] { infer_op("Conv", attrs, inputs); });
  };
  const InferInput x(DType::FLOAT32, {"1", "4", "8", "8"});
  const InferInput w(DType::FLOAT32, {"6", "4", "3", "3"});
  EXPECT_EQ(code({}, {x, InferInput(DType::FLOAT32, {"6", "3", "3", "3"})}), Code::SHAPE_MISMATCH);
  EXPECT_EQ(code({}, {x, InferInput(DType::FLOAT32, {"6", "4", "9", "3"})}), Code::SHAPE_MISMATCH);
  EXPECT_EQ(code({}, {x, InferInput(DType::FLOAT16, {"6", "4", "3", "3"})}), Code::TYPE);
  EXPECT_EQ(code({}, {x, w, InferInput(DType::FLOAT32, {"5"})}), Code::SHAPE_MISMATCH);
  EXPECT_EQ(code({{"strides", std::vector<int64_t>{0, 1}}}, {x, w}), Code::ATTRIBUTE);
  EXPECT_EQ(code({{"pads", std::vector<int64_t>{0, 1}}}, {x, w}), Code::ATTRIBUTE);
  EXPECT_EQ(code({{"auto_pad", std::string("MAYBE")}}, {x, w}), Code::ATTRIBUTE);
  EXPECT_EQ(code({{"group", int64_t{4}}}, {x, InferInput(DType::FLOAT32, {"6", "1", "3", "3"})}), Code::SHAPE_MISMATCH);
}

TEST(ConvTranspose, OverlappingWindowsAdd) {
  const Tensor x = f32({1, 1, 2}, {1, 2});
  const Tensor w = f32({1, 1, 3}, {1, 10, 100});
  expect_equal(run_op("ConvTranspose", {}, {x, w})[0], f32({1, 1, 4}, {1, 12, 120, 200}));
  const AttrList strided{{"strides", std::vector<int64_t>{2}}};
  expect_equal(run_op("ConvTranspose", strided, {x, w, f32({1}, {0.5f})})[0],
               f32({1, 1, 5}, {1.5f, 10.5f, 102.5f, 20.5f, 200.5f}));
}

TEST(ConvTranspose, SameCropsTheRightSide) {
  const Tensor x = f32({1, 1, 3}, {1, 2, 3});
  const Tensor w = f32({1, 1, 2}, {1, 10});  // the full result is 1, 12, 23, 30
  expect_equal(run_op("ConvTranspose", {{"auto_pad", std::string("SAME_UPPER")}}, {x, w})[0],
               f32({1, 1, 3}, {1, 12, 23}));
  expect_equal(run_op("ConvTranspose", {{"auto_pad", std::string("SAME_LOWER")}}, {x, w})[0],
               f32({1, 1, 3}, {12, 23, 30}));
}

TEST(ConvTranspose, OutputPaddingAndOutputShape) {
  const Tensor x = f32({1, 1, 2}, {1, 2});
  const Tensor w = f32({1, 1, 3}, {1, 10, 100});
  // The full result at stride 2 is 1, 10, 102, 20, 200; one cell of output padding follows, then pads cut both ends.
  const AttrList padded{{"strides", std::vector<int64_t>{2}},
                        {"pads", std::vector<int64_t>{1, 1}},
                        {"output_padding", std::vector<int64_t>{1}}};
  expect_equal(run_op("ConvTranspose", padded, {x, w})[0], f32({1, 1, 4}, {10, 102, 20, 200}));
  const AttrList shaped{{"strides", std::vector<int64_t>{2}}, {"output_shape", std::vector<int64_t>{4}}};
  expect_equal(run_op("ConvTranspose", shaped, {x, w})[0], f32({1, 1, 4}, {10, 102, 20, 200}));
}

TEST(ConvTranspose, IsTheAdjointOfConv) {
  // <conv(a), b> == <a, conv_transpose(b)> for every a and b.
  const Params p{3, 2, 1, 0, 2, 2};
  const Tensor a = ramp({1, 4, 9, 9});
  const Tensor w = ramp({6, 2, 3, 3}, 0.05f, 13);
  const Tensor y = run_op("Conv", attrs_of(p), {a, w})[0];
  const Tensor b = ramp(y.dims(), 0.1f, 11);
  // The last input cells that no window touched come back as output padding.
  AttrList padded = attrs_of(p);
  const int64_t full = (y.dims()[2] - 1) * 2 + 5 - 1;
  padded.emplace_back("output_padding", std::vector<int64_t>{9 - full, 9 - full});
  const Tensor t = run_op("ConvTranspose", padded, {b, w})[0];
  ASSERT_EQ(t.dims(), a.dims());
  double left = 0, right = 0;
  for (int64_t i = 0; i < y.count(); ++i) left += double(y.as<float>()[i]) * b.as<float>()[i];
  for (int64_t i = 0; i < a.count(); ++i) right += double(a.as<float>()[i]) * t.as<float>()[i];
  EXPECT_NEAR(left, right, 1e-4);
  AttrList last = padded;
  last.emplace_back("layout", std::string("NHWC"));
  expect_close(run_op("deepjit.ConvTranspose", last, {to_last(b), w})[0], to_last(t), 1e-5);
}

TEST(ConvTranspose, ShapeRuleKeepsSymbols) {
  const InferInput w(DType::FLOAT32, {"3", "8", "2", "2"});
  EXPECT_EQ(
      infer_op("ConvTranspose", {{"strides", std::vector<int64_t>{2, 2}}}, {{DType::FLOAT32, {"N", "3", "H", "5"}}, w})
          .type(),
      "float32[N,8," + Dim::parse("H*2").to_string() + ",10]");
}

TEST(DeformConv, WithoutOffsetsIsConv) {
  const Params p{3, 1, 1, 1, 1, 1};
  const Tensor x = ramp({1, 4, 5, 6});
  const Tensor w = ramp({3, 4, 3, 3}, 0.05f, 13);
  Tensor offset(DType::FLOAT32, {1, 2 * 18, 5, 6});
  std::fill_n(offset.as<float>(), offset.count(), 0.0f);
  AttrList attrs = attrs_of(p);
  attrs.emplace_back("offset_group", int64_t{2});
  expect_close(run_op("DeformConv", attrs, {x, w, offset})[0], naive_conv(x, w, none(), p), 1e-5);
}

TEST(DeformConv, OffsetsInterpolateAndMaskScales) {
  const Tensor x = f32({1, 1, 2, 2}, {1, 2, 3, 4});
  const Tensor w = f32({1, 1, 1, 1}, {1});
  // Shift every sample by (+0.5, +0.5): outside counts as zero.
  const Tensor offset = f32({1, 2, 2, 2}, std::vector<float>(8, 0.5f));
  expect_close(run_op("DeformConv", {}, {x, w, offset, f32({1}, {1})})[0], f32({1, 1, 2, 2}, {3.5f, 2.5f, 2.75f, 2}));
  const Tensor mask = f32({1, 1, 2, 2}, {2, 0, 1, 1});
  expect_close(run_op("DeformConv", {}, {x, w, offset, none(), mask})[0], f32({1, 1, 2, 2}, {5, 0, 1.75f, 1}));
}

TEST(Col2Im, BlocksAddWhereTheyOverlap) {
  // Image 2x3, block 1x2, stride 1: two blocks a row.
  const Tensor x = f32({1, 2, 4}, {1, 2, 3, 4, 10, 20, 30, 40});
  expect_equal(run_op("Col2Im", {}, {x, i64({2}, {2, 3}), i64({2}, {1, 2})})[0],
               f32({1, 1, 2, 3}, {1, 12, 20, 3, 34, 40}));
}

TEST(PoolGeometry, CeilModeDropsAWindowThatStartsInTheEndPadding) {
  Attributes attrs = make_attrs({{"kernel_shape", std::vector<int64_t>{2}},
                                 {"strides", std::vector<int64_t>{2}},
                                 {"pads", std::vector<int64_t>{1, 1}},
                                 {"ceil_mode", int64_t{1}}});
  EXPECT_EQ(pool_geometry<int64_t>(attrs, {17}).out, std::vector<int64_t>{9});
  EXPECT_EQ(pool_geometry<int64_t>(attrs, {16}).out, std::vector<int64_t>{9});
}

}  // namespace deepjit
