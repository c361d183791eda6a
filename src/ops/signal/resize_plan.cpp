#include "ops/signal/resize_plan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace deepjit {

namespace {

void expect_one_of(const std::string& name, const std::string& value, std::initializer_list<const char*> allowed) {
  for (const char* text : allowed) {
    if (value == text) return;
  }
  throw Error(Code::ATTRIBUTE, "Resize: " + name + " has the value \"" + value + "\"");
}

// The input coordinate that output position x comes from.
double source_coordinate(const ResizeOptions& o, const ResizeAxis& a, int64_t position) {
  const double x = static_cast<double>(position), in = static_cast<double>(a.in);
  const double out = a.scale * in;  // may be fractional where scales are given
  if (o.transform == "half_pixel") return (x + 0.5) / a.scale - 0.5;
  if (o.transform == "pytorch_half_pixel") return a.out > 1 ? (x + 0.5) / a.scale - 0.5 : 0.0;
  if (o.transform == "asymmetric") return x / a.scale;
  if (o.transform == "align_corners") return a.out == 1 || out == 1 ? 0.0 : x * (in - 1) / (out - 1);
  if (o.transform == "half_pixel_symmetric") {
    const double adjustment = static_cast<double>(a.out) / out;
    return in / 2 * (1 - adjustment) + (x + 0.5) / a.scale - 0.5;
  }
  const double span = (a.roi_end - a.roi_start) * (in - 1);
  const double start = a.roi_start * (in - 1);
  return a.out == 1 ? start + span / 2 : start + x * span / (static_cast<double>(a.out) - 1);
}

double nearest_index(const std::string& mode, double x) {
  if (mode == "floor") return std::floor(x);
  if (mode == "ceil") return std::ceil(x);
  if (mode == "round_prefer_ceil") return std::floor(x + 0.5);
  return std::ceil(x - 0.5);
}

double cubic_kernel(double a, double x) {
  x = std::fabs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return 0;
}

// When the scale is a float that only rounds out / in, coordinates follow the exact ratio.
double exact_scale(double scale, int64_t in, int64_t out) {
  const double ratio = static_cast<double>(out) / static_cast<double>(in);
  return std::fabs(ratio - scale) <= std::numeric_limits<float>::epsilon() * std::fabs(scale) ? ratio : scale;
}

}  // namespace

ResizeOptions resize_options(const Attributes& attrs) {
  ResizeOptions o;
  const std::string mode = attrs.get_string("mode", "nearest");
  expect_one_of("mode", mode, {"nearest", "linear", "cubic"});
  o.mode = mode == "nearest" ? ResizeMode::NEAREST : mode == "linear" ? ResizeMode::LINEAR : ResizeMode::CUBIC;
  o.transform = attrs.get_string("coordinate_transformation_mode", "half_pixel");
  expect_one_of("coordinate_transformation_mode", o.transform,
                {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
                 "tf_crop_and_resize"});
  o.nearest = attrs.get_string("nearest_mode", "round_prefer_floor");
  expect_one_of("nearest_mode", o.nearest, {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"});
  o.policy = attrs.get_string("keep_aspect_ratio_policy", "stretch");
  expect_one_of("keep_aspect_ratio_policy", o.policy, {"stretch", "not_larger", "not_smaller"});
  o.cubic_a = attrs.get_float("cubic_coeff_a", -0.75f);
  o.antialias = attrs.get_int("antialias", 0) != 0;
  o.exclude_outside = attrs.get_int("exclude_outside", 0) != 0;
  o.axes = attrs.get_ints("axes");
  if (o.antialias && o.mode == ResizeMode::NEAREST) {
    throw Error(Code::ATTRIBUTE, "Resize: antialias needs the linear or cubic mode");
  }
  return o;
}

std::vector<int> resize_axes(const ResizeOptions& options, int rank) {
  std::vector<int> axes;
  if (options.axes.empty()) {
    axes.resize(static_cast<size_t>(rank));
    std::iota(axes.begin(), axes.end(), 0);
    return axes;
  }
  for (int64_t axis : options.axes) axes.push_back(normalize_axis(axis, rank, "Resize: axes"));
  std::vector<int> sorted = axes;
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) {
    throw Error(Code::ATTRIBUTE, "Resize: an axis is repeated");
  }
  return axes;
}

int64_t scaled_length(int64_t in, float scale) {
  const float out = std::floor(static_cast<float>(in) * scale);
  if (!(scale > 0) || !(out < 9e15f)) {
    throw Error(Code::RUN_VALUE, "Resize: a scale is " + std::to_string(scale));
  }
  return static_cast<int64_t>(out);
}

std::vector<ResizeAxis> plan_from_scales(const ResizeOptions& options, const std::vector<int64_t>& in,
                                         const std::vector<float>& scales) {
  const std::vector<int> axes = resize_axes(options, static_cast<int>(in.size()));
  if (scales.size() != axes.size()) {
    throw Error(Code::SHAPE_MISMATCH,
                "Resize: " + std::to_string(scales.size()) + " scales for " + std::to_string(axes.size()) + " axes");
  }
  std::vector<ResizeAxis> plan;
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t length = in[static_cast<size_t>(axes[i])];
    const int64_t out = scaled_length(length, scales[i]);
    plan.push_back({axes[i], length, out, length == 0 ? scales[i] : exact_scale(scales[i], length, out)});
  }
  return plan;
}

std::vector<ResizeAxis> plan_from_sizes(const ResizeOptions& options, const std::vector<int64_t>& in,
                                        const std::vector<int64_t>& sizes) {
  const std::vector<int> axes = resize_axes(options, static_cast<int>(in.size()));
  if (sizes.size() != axes.size()) {
    throw Error(Code::SHAPE_MISMATCH,
                "Resize: " + std::to_string(sizes.size()) + " sizes for " + std::to_string(axes.size()) + " axes");
  }
  std::vector<ResizeAxis> plan;
  double common = options.policy == "not_larger" ? std::numeric_limits<double>::infinity() : 0;
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t length = in[static_cast<size_t>(axes[i])];
    if (sizes[i] < 0) throw Error(Code::RUN_VALUE, "Resize: a size is " + std::to_string(sizes[i]));
    const double scale = length == 0 ? 1 : static_cast<double>(sizes[i]) / static_cast<double>(length);
    common = options.policy == "not_larger" ? std::min(common, scale) : std::max(common, scale);
    plan.push_back({axes[i], length, sizes[i], scale});
  }
  if (options.policy == "stretch") return plan;
  for (ResizeAxis& a : plan) {
    a.scale = common;
    a.out = static_cast<int64_t>(common * static_cast<double>(a.in) + 0.5);
  }
  return plan;
}

ResizeWeights resize_weights(const ResizeOptions& o, const ResizeAxis& a) {
  ResizeWeights w;
  const double stretch = o.antialias ? std::min(a.scale, 1.0) : 1.0;
  const double radius = o.mode == ResizeMode::LINEAR ? 1 : 2;
  w.taps = 1;
  int64_t first = 0;  // the first tap, counted from the neighbour on the left
  if (o.mode != ResizeMode::NEAREST) {
    first = static_cast<int64_t>(std::floor(-radius / stretch)) + 1;
    w.taps = 2 - 2 * first;
  }
  w.index.reserve(static_cast<size_t>(a.out * w.taps));
  w.weight.reserve(static_cast<size_t>(a.out * w.taps));
  for (int64_t position = 0; position < a.out; ++position) {
    const double x = source_coordinate(o, a, position);
    const double last = static_cast<double>(a.in - 1);
    w.outside.push_back(o.transform == "tf_crop_and_resize" && (x < 0 || x > last));
    if (o.mode == ResizeMode::NEAREST) {
      w.index.push_back(static_cast<int64_t>(std::clamp(nearest_index(o.nearest, x), 0.0, std::max(last, 0.0))));
      w.weight.push_back(1);
      continue;
    }
    const double left = std::ceil(x) - 1;  // the neighbour strictly below x
    double sum = 0;
    const size_t begin = w.weight.size();
    for (int64_t tap = 0; tap < w.taps; ++tap) {
      const double at = left + static_cast<double>(first + tap), distance = (at - x) * stretch;
      double value = o.mode == ResizeMode::LINEAR ? std::clamp(1 - std::fabs(distance), 0.0, 1.0)
                                                  : cubic_kernel(o.cubic_a, distance);
      if (o.exclude_outside && (at < 0 || at > last)) value = 0;
      sum += value;
      w.index.push_back(static_cast<int64_t>(std::clamp(at, 0.0, std::max(last, 0.0))));
      w.weight.push_back(value);
    }
    for (size_t i = begin; i < w.weight.size() && (o.antialias || o.exclude_outside); ++i) w.weight[i] /= sum;
  }
  return w;
}

}  // namespace deepjit
