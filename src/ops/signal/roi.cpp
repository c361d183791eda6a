// RoiAlign and MaxRoiPool.
#include <algorithm>
#include <cmath>

#include "ops/common.h"
#include "ops/linear/compute_buffer.h"
#include "ops/signal/image.h"

namespace deepjit {

namespace {

// What the sampling points of one bin make of one axis. Weights are products of one factor an axis, so the points of a
// bin, however many, come down to a factor for each row and each column of pixels that they touch.
template <typename C>
struct AxisPart {
  struct Pixel {
    C sum = 0, least = 0, most = 0;  // of the weights that points give it; least and most where it was touched at all
    bool touched = false;
  };
  int64_t first = 0;  // of the pixels
  std::vector<Pixel> pixels;
  bool outside = false;  // a point is beyond the image: its value is 0

  void touch(int64_t at, C weight) {
    Pixel& p = pixels[static_cast<size_t>(at - first)];
    p.sum += weight;
    p.least = p.touched ? std::min(p.least, weight) : weight;
    p.most = p.touched ? std::max(p.most, weight) : weight;
    p.touched = true;
  }
};

// The points lie at start + (i + 0.5) / points * length, over an axis of `size` pixels.
template <typename C>
AxisPart<C> axis_part(C start, C length, int64_t points, int64_t size) {
  AxisPart<C> part;
  auto pixel = [&](C at) {
    return std::clamp<int64_t>(static_cast<int64_t>(std::clamp(at, C(-1), C(size))), 0, size - 1);
  };
  part.first = pixel(std::min(start, start + length));
  part.pixels.resize(static_cast<size_t>(pixel(std::max(start, start + length) + C(1)) - part.first + 1));
  const int64_t last = part.first + static_cast<int64_t>(part.pixels.size()) - 1;
  for (int64_t i = 0; i < points; ++i) {
    C at = start + (C(i) + C(0.5)) / C(points) * length;
    if (!(at >= C(-1) && at <= C(size))) {
      part.outside = true;
      continue;
    }
    at = std::max(at, C(0));
    const int64_t low = std::clamp(static_cast<int64_t>(at), part.first, last);
    if (low >= size - 1) at = C(size - 1);
    part.touch(low, C(1) - (at - C(low)));
    part.touch(std::min(low + 1, last), at - C(low));
  }
  return part;
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

constexpr int64_t kMostPoints = 1 << 20;  // of a region along an axis, and of its size in pixels

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
  const int64_t points = std::max<int64_t>(o.ratio, 1);
  if (o.height < 1 || o.width < 1 || o.ratio < 0 || points > kMostPoints / std::min(o.height, kMostPoints) ||
      points > kMostPoints / std::min(o.width, kMostPoints)) {
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
  constexpr C kMost = kMostPoints;
  if (!(std::abs(height) <= kMost && std::abs(width) <= kMost)) {
    throw Error(Code::RUN_VALUE, "RoiAlign: a region is too large");
  }
  r.rows = o.ratio > 0 ? o.ratio : static_cast<int64_t>(std::ceil(std::max(r.bin_height, C(0))));
  r.columns = o.ratio > 0 ? o.ratio : static_cast<int64_t>(std::ceil(std::max(r.bin_width, C(0))));
  return r;
}

// The sum, or the largest, of what the points of a bin see of one plane. Weights are not negative: the largest product
// of a pixel takes its most weights where the pixel is positive and its least where it is negative.
template <typename C>
C pool_bin(const AxisPart<C>& rows, const AxisPart<C>& columns, const C* plane, int64_t width, bool maximum) {
  C value = 0;
  bool any = rows.outside || columns.outside;
  for (size_t i = 0; i < rows.pixels.size(); ++i) {
    const auto& row = rows.pixels[i];
    if (!row.touched) continue;
    const C* line = plane + (rows.first + static_cast<int64_t>(i)) * width + columns.first;
    for (size_t j = 0; j < columns.pixels.size(); ++j) {
      const auto& column = columns.pixels[j];
      if (!column.touched) continue;
      if (!maximum) {
        value += row.sum * column.sum * line[j];
        continue;
      }
      const C seen = line[j] < C(0) ? row.least * column.least * line[j] : row.most * column.most * line[j];
      value = any ? std::max(value, seen) : seen;
      any = true;
    }
  }
  return value;
}

template <typename C>
std::vector<AxisPart<C>> axis_parts(C start, C bin, int64_t bins, int64_t points, int64_t size) {
  std::vector<AxisPart<C>> parts;
  for (int64_t i = 0; i < bins; ++i) parts.push_back(axis_part(start + C(i) * bin, bin, points, size));
  return parts;
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
  C* y = out.data();
  if (plane == 0) std::fill_n(y, regions * channels * o.height * o.width, C(0));
  for (int64_t n = 0; n < (plane == 0 ? 0 : regions); ++n) {
    const int64_t image = images.at(static_cast<size_t>(n));
    if (image < 0 || image >= x[0]) {
      throw Error(Code::INDEX_RANGE,
                  "RoiAlign: batch index " + std::to_string(image) + " is outside a batch of " + std::to_string(x[0]));
    }
    const Region<C> r = region_of(o, boxes + 4 * n);
    const auto rows = axis_parts(r.y, r.bin_height, o.height, r.rows, x[2]);
    const auto columns = axis_parts(r.x, r.bin_width, o.width, r.columns, x[3]);
    const C points = C(r.rows) * C(r.columns);
    for (int64_t c = 0; c < channels; ++c) {
      const C* pixels = in + (image * channels + c) * plane;
      for (const auto& row : rows) {
        for (const auto& column : columns) {
          const C value = pool_bin(row, column, pixels, x[3], o.maximum);
          *y++ = o.maximum || points == C(0) ? value : value / points;
        }
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
