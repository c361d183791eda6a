#include <algorithm>
#include <chrono>
#include <cmath>
#include <string>
#include <vector>

#include "op_test_util.h"

namespace deepjit {

namespace {

using Ints = std::vector<int64_t>;

std::string str(const char* text) { return text; }

// Resizes the numbers 0, 1, 2 ... of a vector to `out` entries by sizes.
std::vector<float> resize_ramp(int64_t in, int64_t out, AttrList attrs) {
  std::vector<float> x(static_cast<size_t>(in));
  for (int64_t i = 0; i < in; ++i) x[static_cast<size_t>(i)] = static_cast<float>(i);
  const Tensor y = run_op("Resize", attrs, {f32({in}, x), none(), none(), i64({1}, {out})})[0];
  return {y.as<float>(), y.as<float>() + y.count()};
}

using Floats = std::vector<float>;

}  // namespace

TEST(Resize, NearestRoundsExactHalves) {
  EXPECT_EQ(resize_ramp(20, 6, {{"nearest_mode", str("round_prefer_ceil")}}), (Floats{1, 5, 8, 11, 15, 18}));
  EXPECT_EQ(resize_ramp(20, 6, {}), (Floats{1, 4, 8, 11, 14, 18}));
  // The same by a scale that float can only round.
  Tensor x(DType::FLOAT32, {20});
  for (int64_t i = 0; i < 20; ++i) x.as<float>()[i] = static_cast<float>(i);
  expect_equal(run_op("Resize", {{"nearest_mode", str("round_prefer_ceil")}}, {x, none(), f32({1}, {0.3f})})[0],
               f32({6}, {1, 5, 8, 11, 15, 18}));
}

TEST(Resize, NearestFloorStaysInRange) {
  EXPECT_EQ(resize_ramp(3, 6, {{"nearest_mode", str("floor")}}), (Floats{0, 0, 0, 1, 1, 2}));
  EXPECT_EQ(resize_ramp(3, 6, {{"nearest_mode", str("ceil")}}), (Floats{0, 1, 1, 2, 2, 2}));
  const AttrList asymmetric{{"nearest_mode", str("floor")}, {"coordinate_transformation_mode", str("asymmetric")}};
  EXPECT_EQ(resize_ramp(3, 6, asymmetric), (Floats{0, 0, 1, 1, 2, 2}));
}

TEST(Resize, LinearTransforms) {
  auto linear = [](const char* transform) {
    return AttrList{{"mode", str("linear")}, {"coordinate_transformation_mode", str(transform)}};
  };
  EXPECT_EQ(resize_ramp(2, 4, linear("half_pixel")), (Floats{0, 0.25f, 0.75f, 1}));
  EXPECT_EQ(resize_ramp(3, 5, linear("align_corners")), (Floats{0, 0.5f, 1, 1.5f, 2}));
  EXPECT_EQ(resize_ramp(2, 4, linear("asymmetric")), (Floats{0, 0.5f, 1, 1}));
  EXPECT_EQ(resize_ramp(4, 1, linear("pytorch_half_pixel")), (Floats{0}));
  EXPECT_EQ(resize_ramp(4, 1, linear("half_pixel")), (Floats{1.5f}));
  EXPECT_EQ(resize_ramp(4, 2, {{"mode", str("linear")}, {"antialias", int64_t{1}}}), (Floats{0.625f, 2.375f}));
}

TEST(Resize, CubicReproducesConstantsAndExcludesOutside) {
  const Tensor x = f32({1, 1, 4, 4}, std::vector<float>(16, 3));
  for (const int64_t exclude : {0, 1}) {
    const AttrList attrs{{"mode", str("cubic")}, {"exclude_outside", exclude}, {"cubic_coeff_a", -0.5f}};
    expect_close(run_op("Resize", attrs, {x, none(), f32({4}, {1, 1, 1.5f, 0.5f})})[0],
                 f32({1, 1, 6, 2}, std::vector<float>(12, 3)), 1e-6);
  }
  // x = 1.5 between four taps with a = -0.75: weights -3/32, 19/32, 19/32, -3/32.
  const Tensor y =
      run_op("Resize", {{"mode", str("cubic")}}, {f32({4}, {0, 0, 1, 0}), none(), none(), i64({1}, {1})})[0];
  EXPECT_NEAR(y.as<float>()[0], 19.0 / 32, 1e-6);
}

TEST(Resize, CropUsesTheRoiAndExtrapolates) {
  const AttrList attrs{{"mode", str("linear")},
                       {"coordinate_transformation_mode", str("tf_crop_and_resize")},
                       {"extrapolation_value", 9.0f}};
  const Tensor x = f32({5}, {0, 1, 2, 3, 4});
  expect_close(run_op("Resize", attrs, {x, f32({2}, {0.25f, 1.25f}), none(), i64({1}, {3})})[0], f32({3}, {1, 3, 9}));
  AttrList nearest = attrs;
  nearest[0].second = str("nearest");
  expect_equal(run_op("Resize", nearest, {x, f32({2}, {0.25f, 1.25f}), none(), i64({1}, {3})})[0], f32({3}, {1, 3, 9}));
}

TEST(Resize, AxesAspectRatioAndTypes) {
  const AttrList larger{{"axes", Ints{2, 3}}, {"keep_aspect_ratio_policy", str("not_larger")}};
  const Tensor x = u8({1, 1, 2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
  EXPECT_EQ(run_op("Resize", larger, {x, none(), none(), i64({2}, {8, 8})})[0].dims(), (Dims{1, 1, 4, 8}));
  AttrList smaller = larger;
  smaller[1].second = str("not_smaller");
  EXPECT_EQ(run_op("Resize", smaller, {x, none(), none(), i64({2}, {8, 8})})[0].dims(), (Dims{1, 1, 8, 16}));
  // Integers round to even and saturate: 0.25 and 0.75 of the way from 0 to 255.
  expect_equal(run_op("Resize", {{"mode", str("linear")}}, {u8({2}, {0, 255}), none(), f32({1}, {2})})[0],
               u8({4}, {0, 64, 191, 255}));
  expect_equal(run_op("Resize", {}, {bools({2}, {1, 0}), none(), f32({1}, {2})})[0], bools({4}, {1, 1, 0, 0}));
}

TEST(Resize, ShapeRule) {
  const InferInput x(DType::FLOAT32, {"N", "3", "H", "W"}), absent;
  EXPECT_EQ(infer_op("Resize", {}, {x, absent, f32({4}, {1, 1, 2, 0.5f})}).type(),
            "float32[N,3," + Dim::parse("H*2").to_string() + "," + Dim::parse("W//2").to_string() + "]");
  EXPECT_EQ(infer_op("Resize", {}, {x, absent, absent, known_values({"N", "3", "A", "B"})}).type(), "float32[N,3,A,B]");
  EXPECT_EQ(infer_op("Resize", {{"axes", Ints{-1}}}, {x, absent, absent, known_values({"B"})}).type(),
            "float32[N,3,H,B]");
  EXPECT_EQ(error_code_of([&] { infer_op("Resize", {}, {x}); }), Code::ARITY);
  EXPECT_EQ(error_code_of([&] { infer_op("Resize", {}, {x, absent, f32({2}, {1, 1})}); }), Code::SHAPE_MISMATCH);
  EXPECT_EQ(error_code_of([&] { infer_op("Resize", {}, {x, absent, f32({4}, {1, 1, -2, 1})}); }), Code::RUN_VALUE);
}

TEST(GridSample, ModesAndPadding) {
  const Tensor x = f32({1, 1, 1, 3}, {10, 20, 30});
  auto sample = [&](float at, const char* mode, const char* padding, int64_t align) {
    const AttrList attrs{{"mode", str(mode)}, {"padding_mode", str(padding)}, {"align_corners", align}};
    return run_op("GridSample", attrs, {x, f32({1, 1, 1, 2}, {at, 0})})[0].as<float>()[0];
  };
  EXPECT_FLOAT_EQ(sample(0, "linear", "zeros", 1), 20);
  EXPECT_FLOAT_EQ(sample(0.5f, "linear", "zeros", 1), 25);
  EXPECT_FLOAT_EQ(sample(1, "linear", "zeros", 0), 15);  // x = 2.5: half of 30, half of nothing
  EXPECT_FLOAT_EQ(sample(1, "linear", "border", 0), 30);
  EXPECT_FLOAT_EQ(sample(1.5f, "linear", "reflection", 1), 25);
  EXPECT_FLOAT_EQ(sample(0.4f, "nearest", "zeros", 1), 20);
  EXPECT_FLOAT_EQ(sample(NAN, "linear", "zeros", 1), 0);
  EXPECT_FLOAT_EQ(sample(1e30f, "nearest", "border", 1), 30);
  EXPECT_FLOAT_EQ(sample(0, "cubic", "border", 1), 20);
}

TEST(GridSample, AnAffineIdentityGridReturnsTheImage) {
  Tensor x(DType::FLOAT32, {2, 3, 4, 5});
  for (int64_t i = 0; i < x.count(); ++i) x.as<float>()[i] = static_cast<float>(i * 13 % 29);
  for (const int64_t align : {0, 1}) {
    const Tensor theta = f32({2, 2, 3}, {1, 0, 0, 0, 1, 0, 1, 0, 0, 0, 1, 0});
    const AttrList attrs{{"align_corners", align}};
    const Tensor grid = run_op("AffineGrid", attrs, {theta, i64({4}, {2, 3, 4, 5})})[0];
    expect_close(run_op("GridSample", attrs, {x, grid})[0], x, 1e-4);
  }
}

TEST(AffineGrid, ThreeDimsAndShapes) {
  const Tensor theta = f32({1, 3, 4}, {0, 0, 1, 0, 0, 2, 0, 0, 0, 0, 0, 5});
  // x' = z, y' = 2 y, z' = 5 at the single point z = y = x = 0.
  expect_equal(run_op("AffineGrid", {}, {theta, i64({5}, {1, 1, 1, 1, 1})})[0], f32({1, 1, 1, 1, 3}, {0, 0, 5}));
  EXPECT_EQ(infer_op("AffineGrid", {}, {{DType::FLOAT32, {"N", "2", "3"}}, known_values({"N", "C", "H", "W"})}).type(),
            "float32[N,H,W,2]");
  EXPECT_EQ(infer_op("GridSample", {}, {{DType::FLOAT32, {"N", "3", "H", "W"}}, {DType::FLOAT32, {"N", "A", "B", "2"}}})
                .type(),
            "float32[N,3,A,B]");
}

TEST(RoiAlign, AveragesABilinearGrid) {
  Tensor x(DType::FLOAT32, {1, 1, 4, 4});
  for (int64_t i = 0; i < 16; ++i) x.as<float>()[i] = static_cast<float>(i % 4);  // the column number
  const Tensor boxes = f32({1, 4}, {0, 0, 4, 4}), image = i64({1}, {0});
  const AttrList attrs{{"output_height", int64_t{1}}, {"output_width", int64_t{2}}, {"sampling_ratio", int64_t{2}}};
  // Samples lie at columns 0, 1 and 2, 3 after the half-pixel shift.
  expect_close(run_op("RoiAlign", attrs, {x, boxes, image})[0], f32({1, 1, 1, 2}, {0.5f, 2.5f}));
  EXPECT_EQ(error_code_of([&] { run_op("RoiAlign", attrs, {x, boxes, i64({1}, {1})}); }), Code::INDEX_RANGE);
}

// As the operator's text has it, point by point.
std::vector<float> points_of_bins(const Tensor& x, const Tensor& boxes, int64_t height, int64_t width, int64_t ratio,
                                  bool maximum) {
  const int64_t h = x.dims()[2], w = x.dims()[3];
  std::vector<float> out;
  for (int64_t n = 0; n < boxes.dims()[0]; ++n) {
    const float* box = boxes.as<float>() + 4 * n;
    const double left = box[0] - 0.5, top = box[1] - 0.5;
    const double bin_h = (box[3] - box[1]) / static_cast<double>(height);
    const double bin_w = (box[2] - box[0]) / static_cast<double>(width);
    for (int64_t bin = 0; bin < height * width; ++bin) {
      double sum = 0, most = -1e30;
      for (int64_t i = 0; i < ratio * ratio; ++i) {
        double y = top + (double(bin / width) + (double(i / ratio) + 0.5) / double(ratio)) * bin_h;
        double z = left + (double(bin % width) + (double(i % ratio) + 0.5) / double(ratio)) * bin_w;
        double parts[4] = {0, 0, 0, 0};
        if (y >= -1 && y <= double(h) && z >= -1 && z <= double(w)) {
          y = std::clamp(y, 0.0, double(h - 1));
          z = std::clamp(z, 0.0, double(w - 1));
          const auto y0 = static_cast<int64_t>(y), x0 = static_cast<int64_t>(z);
          for (int k = 0; k < 4; ++k) {
            const int64_t row = std::min(y0 + k / 2, h - 1), column = std::min(x0 + k % 2, w - 1);
            const double fy = y - double(y0), fx = z - double(x0);
            parts[k] = (k / 2 == 1 ? fy : 1 - fy) * (k % 2 == 1 ? fx : 1 - fx) * x.as<float>()[row * w + column];
          }
        }
        sum += parts[0] + parts[1] + parts[2] + parts[3];
        most = std::max(most, std::max(std::max(parts[0], parts[1]), std::max(parts[2], parts[3])));
      }
      out.push_back(static_cast<float>(maximum ? most : sum / double(ratio * ratio)));
    }
  }
  return out;
}

TEST(RoiAlign, EqualsItsPointsWhateverTheirNumber) {
  Tensor x(DType::FLOAT32, {1, 1, 7, 9});
  for (int64_t i = 0; i < 63; ++i) x.as<float>()[i] = static_cast<float>((i * 37) % 23 - 11);
  // Inside, over every edge, turned around, thinner than a pixel, outside.
  const Tensor boxes =
      f32({6, 4}, {1, 1, 6, 5, -3, -2, 12, 9, 8, 6, 2, 1, 3.2f, 2, 3.3f, 2.1f, 20, 20, 30, 30, 0, 0, 9, 7});
  const Tensor images = i64({6}, {0, 0, 0, 0, 0, 0});
  for (const int64_t ratio : {1, 2, 3, 50}) {
    for (const std::string mode : {"avg", "max"}) {
      const AttrList attrs{
          {"output_height", int64_t{3}}, {"output_width", int64_t{2}}, {"sampling_ratio", ratio}, {"mode", mode}};
      const Tensor y = run_op("RoiAlign", attrs, {x, boxes, images})[0];
      const std::vector<float> want = points_of_bins(x, boxes, 3, 2, ratio, mode == "max");
      for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(y.as<float>()[i], want[i], 2e-5) << ratio << mode << i;
    }
  }
}

TEST(RoiAlign, ManyPointsOverManyPixelsTakeNoTime) {
  const Tensor x(DType::FLOAT32, {1, 4, 64, 64}), images = i64({1}, {0});
  const auto start = std::chrono::steady_clock::now();
  auto run = [&](int64_t ratio, float size) {
    const AttrList attrs{{"output_height", int64_t{4}}, {"output_width", int64_t{4}}, {"sampling_ratio", ratio}};
    return run_op("RoiAlign", attrs, {x, f32({1, 4}, {0, 0, size, size}), images});
  };
  run(1 << 18, 64);
  run(0, 1 << 19);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(1));
  EXPECT_EQ(error_code_of([&] { run(1 << 19, 64); }), Code::ATTRIBUTE);
  EXPECT_EQ(error_code_of([&] { run(0, 1 << 22); }), Code::RUN_VALUE);
}

TEST(MaxRoiPool, BinsOverlapAndEmptyBinsAreZero) {
  const Tensor x = f32({1, 1, 1, 3}, {-1, -2, -3});
  const AttrList attrs{{"pooled_shape", Ints{1, 2}}};
  expect_equal(run_op("MaxRoiPool", attrs, {x, f32({2, 5}, {0, 0, 0, 2, 0, 0, 7, 0, 8, 0})})[0],
               f32({2, 1, 1, 2}, {-1, -2, 0, 0}));
}

}  // namespace deepjit
