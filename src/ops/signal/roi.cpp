// RoiAlign and MaxRoiPool.
#include <algorithm>
#include <cmath>

#include "ops/common.h"
#include "ops/linear/compute_buffer.h"
#include "ops/signal/image.h"

namespace deepjit {

namespace {

// The four pixels around a point, and their weights; all weights are 0 for a point outside.
template <typename C>
struct Corners {
  int64_t at[4] = {0, 0, 0, 0};
  C weight[4] = {0, 0, 0, 0};
};

template <typename C>
Corners<C> corners_of(C y, C x, int64_t height, int64_t width) {
  Corners<C> c;
  if (!(y >= C(-1) && y <= C(height) && x >= C(-1) && x <= C(width))) return c;
  y = std::max(y, C(0));
  x = std::max(x, C(0));
  int64_t y0 = static_cast<int64_t>(y), x0 = static_cast<int64_t>(x);
  if (y0 >= height - 1) y = C(y0 = height - 1);
  if (x0 >= width - 1) x = C(x0 = width - 1);
  const int64_t y1 = std::min(y0 + 1, height - 1), x1 = std::min(x0 + 1, width - 1);
  const C dy = y - C(y0), dx = x - C(x0);
  const int64_t at[4] = {y0 * width + x0, y0 * width + x1, y1 * width + x0, y1 * width + x1};
  const C weight[4] = {(C(1) - dy) * (C(1) - dx), (C(1) - dy) * dx, dy * (C(1) - dx), dy * dx};
  std::copy_n(at, 4, c.at);
  std::copy_n(weight, 4, c.weight);
  return c;
}

// One region's box in input coordinates and the sampling grid of each of its bins.
template <typename C>
struct Region {
  C y, x, bin_height, bin_width;
  int64_t rows, columns;
};

struct AlignOptions {
  int64_t height, width, ratio;
  float scale;
  bool half_pixel, maximum;
};

AlignOptions align_options(const Attributes& attrs) {
  AlignOptions o;
  o.height = attrs.get_int("output_height", 1);
  o.width = attrs.get_int("output_width", 1);
  o.ratio = attrs.get_int("sampling_ratio", 0);
  o.scale = attrs.get_float("spatial_scale", 1.0f);
  const std::string mode = attrs.get_string("mode", "avg");
  const std::string transform = attrs.get_string("coordinate_transformation_mode", "half_pixel");
  if (mode != "avg" && mode != "max") throw Error(Code::ATTRIBUTE, "RoiAlign: mode is \"" + mode + "\"");
  if (transform != "half_pixel" && transform != "output_half_pixel") {
    throw Error(Code::ATTRIBUTE, "RoiAlign: coordinate_transformation_mode is \"" + transform + "\"");
  }
  if (o.height < 1 || o.width < 1 || o.ratio < 0) {
    throw Error(Code::ATTRIBUTE, "RoiAlign: output_height, output_width or sampling_ratio is out of range");
  }
  o.half_pixel = transform == "half_pixel";
  o.maximum = mode == "max";
  return o;
}

template <typename C>
Region<C> region_of(const AlignOptions& o, const C* box) {
  const C shift = o.half_pixel ? C(0.5) : C(0);
  Region<C> r;
  r.x = box[0] * o.scale - shift;
  r.y = box[1] * o.scale - shift;
  C width = box[2] * o.scale - shift - r.x, height = box[3] * o.scale - shift - r.y;
  if (!o.half_pixel) {
    width = std::max(width, C(1));
    height = std::max(height, C(1));
  }
  r.bin_height = height / static_cast<C>(o.height);
  r.bin_width = width / static_cast<C>(o.width);
  constexpr C kMost = 1 << 16;
  if (!(r.bin_height < kMost && r.bin_width < kMost)) throw Error(Code::RUN_VALUE, "RoiAlign: a region is too large");
  r.rows = o.ratio > 0 ? o.ratio : static_cast<int64_t>(std::ceil(r.bin_height));
  r.columns = o.ratio > 0 ? o.ratio : static_cast<int64_t>(std::ceil(r.bin_width));
  return r;
}

template <typename C>
C pool_bin(const std::vector<Corners<C>>& samples, const C* plane, bool maximum) {
  C value = 0;
  for (size_t i = 0; i < samples.size(); ++i) {
    const Corners<C>& s = samples[i];
    C part[4];
    for (int k = 0; k < 4; ++k) part[k] = s.weight[k] * plane[s.at[k]];
    if (maximum) {
      const C most = std::max(std::max(part[0], part[1]), std::max(part[2], part[3]));
      value = i == 0 ? most : std::max(value, most);
    } else {
      value += part[0] + part[1] + part[2] + part[3];
    }
  }
  return maximum || samples.empty() ? value : value / static_cast<C>(samples.size());
}

template <typename C>
void roi_align(EvalContext& ctx) {
  const AlignOptions o = align_options(ctx.attrs());
  const Dims& x = ctx.dims(0);
  const int64_t regions = ctx.dims(1)[0], channels = x[1], plane = x[2] * x[3];
  const std::vector<int64_t> images = ctx.ints(2);
  const C* in = read_compute<C>(ctx, 0);
  const C* boxes = read_compute<C>(ctx, 1);
  ComputeOutput<C> out(ctx, 0, ctx.dtype(0), {regions, channels, o.height, o.width});
  std::vector<Corners<C>> samples;
  for (int64_t n = 0; n < regions; ++n) {
    const int64_t image = images.at(static_cast<size_t>(n));
    if (image < 0 || image >= x[0]) {
      throw Error(Code::INDEX_RANGE,
                  "RoiAlign: batch index " + std::to_string(image) + " is outside a batch of " + std::to_string(x[0]));
    }
    const Region<C> r = region_of(o, boxes + 4 * n);
    for (int64_t bin = 0; bin < o.height * o.width; ++bin) {
      samples.clear();
      const int64_t points = checked_mul(r.rows, r.columns);
      for (int64_t i = 0; i < points; ++i) {
        const C y = r.y + (C(bin / o.width) + (C(i / r.columns) + C(0.5)) / C(r.rows)) * r.bin_height;
        const C at = r.x + (C(bin % o.width) + (C(i % r.columns) + C(0.5)) / C(r.columns)) * r.bin_width;
        samples.push_back(corners_of(y, at, x[2], x[3]));
      }
      for (int64_t c = 0; c < channels; ++c) {
        out.data()[(n * channels + c) * o.height * o.width + bin] =
            pool_bin(samples, in + (image * channels + c) * plane, o.maximum);
      }
    }
  }
  out.finish();
}

void evaluate_roi_align(EvalContext& ctx) {
  visit_compute(ctx.dtype(0), "RoiAlign", [&]<typename C>() { roi_align<C>(ctx); });
}

// Rank 4 images and [regions, columns] boxes.
void check_regions(const InferContext& ctx, int64_t columns) {
  const Shape &x = ctx.shape(0), &rois = ctx.shape(1);
  const bool bad_image = x.ranked() && x.rank() != 4;
  const bool bad_boxes = rois.ranked() && (rois.rank() != 2 || (rois[1].is_const() && !(rois[1] == columns)));
  if (bad_image || bad_boxes) {
    throw Error(Code::SHAPE_MISMATCH, "expected images of rank 4 and regions [n, " + std::to_string(columns) +
                                          "], got " + x.to_string() + " and " + rois.to_string());
  }
}

void infer_regions(InferContext& ctx, const Dim& height, const Dim& width) {
  const Dim regions = ctx.shape(1).ranked() ? ctx.shape(1)[0] : ctx.fresh_dim();
  const Dim channels = ctx.shape(0).ranked() ? ctx.shape(0)[1] : ctx.fresh_dim();
  ctx.set_output(0, ctx.dtype(0), Shape({regions, channels, height, width}));
}

void infer_roi_align(InferContext& ctx) {
  expect_compute_float(ctx, "RoiAlign", 0);
  const AlignOptions o = align_options(ctx.attrs());
  check_regions(ctx, 4);
  const Shape &rois = ctx.shape(1), &images = ctx.shape(2);
  if (rois.ranked() && images.ranked() &&
      (images.rank() != 1 || (images[0].is_const() && rois[0].is_const() && !(images[0] == rois[0])))) {
    throw Error(Code::SHAPE_MISMATCH,
                "RoiAlign: batch_indices has shape " + images.to_string() + " for regions " + rois.to_string());
  }
  infer_regions(ctx, Dim(o.height), Dim(o.width));
}

std::vector<int64_t> pooled_shape(const Attributes& attrs) {
  const std::vector<int64_t> shape = attrs.get_ints("pooled_shape");
  if (shape.size() != 2 || shape[0] < 1 || shape[1] < 1) {
    throw Error(Code::ATTRIBUTE, "MaxRoiPool: pooled_shape must be two positive numbers");
  }
  return shape;
}

// Bin i of `bins` over a span of `size` cells that starts at `start`, clamped to [0, limit).
std::pair<int64_t, int64_t> bin_range(int64_t i, int64_t bins, int64_t start, int64_t size, int64_t limit) {
  const double cell = static_cast<double>(size) / static_cast<double>(bins);
  const int64_t first = static_cast<int64_t>(std::floor(static_cast<double>(i) * cell)) + start;
  const int64_t last = static_cast<int64_t>(std::ceil(static_cast<double>(i + 1) * cell)) + start;
  return {std::clamp<int64_t>(first, 0, limit), std::clamp<int64_t>(last, 0, limit)};
}

template <typename C>
void max_roi_pool(EvalContext& ctx) {
  const std::vector<int64_t> pooled = pooled_shape(ctx.attrs());
  const double scale = ctx.attrs().get_float("spatial_scale", 1.0f);
  const Dims& x = ctx.dims(0);
  const int64_t regions = ctx.dims(1)[0], channels = x[1];
  const C* in = read_compute<C>(ctx, 0);
  const C* boxes = read_compute<C>(ctx, 1);
  ComputeOutput<C> out(ctx, 0, ctx.dtype(0), {regions, channels, pooled[0], pooled[1]});
  C* y = out.data();
  auto cell = [&](C value) { return static_cast<int64_t>(std::round(std::clamp<double>(value * scale, -1e9, 1e9))); };
  for (int64_t n = 0; n < regions; ++n) {
    const C* box = boxes + 5 * n;
    const int64_t image = static_cast<int64_t>(box[0]);
    if (!(box[0] >= C(0)) || image >= x[0]) throw Error(Code::INDEX_RANGE, "MaxRoiPool: a batch index is out of range");
    const int64_t left = cell(box[1]), top = cell(box[2]);
    const int64_t width = std::max<int64_t>(cell(box[3]) - left + 1, 1);
    const int64_t height = std::max<int64_t>(cell(box[4]) - top + 1, 1);
    for (int64_t c = 0; c < channels; ++c) {
      const C* plane = in + (image * channels + c) * x[2] * x[3];
      for (int64_t bin = 0; bin < pooled[0] * pooled[1]; ++bin) {
        const auto [y0, y1] = bin_range(bin / pooled[1], pooled[0], top, height, x[2]);
        const auto [x0, x1] = bin_range(bin % pooled[1], pooled[1], left, width, x[3]);
        C most = y0 < y1 && x0 < x1 ? plane[y0 * x[3] + x0] : C(0);
        for (int64_t i = y0; i < y1; ++i) {
          for (int64_t j = x0; j < x1; ++j) most = std::max(most, plane[i * x[3] + j]);
        }
        *y++ = most;
      }
    }
  }
  out.finish();
}

void evaluate_max_roi_pool(EvalContext& ctx) {
  visit_compute(ctx.dtype(0), "MaxRoiPool", [&]<typename C>() { max_roi_pool<C>(ctx); });
}

void infer_max_roi_pool(InferContext& ctx) {
  expect_compute_float(ctx, "MaxRoiPool", 0);
  const std::vector<int64_t> pooled = pooled_shape(ctx.attrs());
  check_regions(ctx, 5);
  infer_regions(ctx, Dim(pooled[0]), Dim(pooled[1]));
}

}  // namespace

void add_roi_ops(OpRegistry& registry) {
  registry.add(
      {.name = "RoiAlign", .min_inputs = 3, .max_inputs = 3, .infer = infer_roi_align, .evaluate = evaluate_roi_align});
  registry.add({.name = "MaxRoiPool",
                .min_inputs = 2,
                .max_inputs = 2,
                .infer = infer_max_roi_pool,
                .evaluate = evaluate_max_roi_pool});
}

}  // namespace deepjit
