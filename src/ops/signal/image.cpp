// GridSample and AffineGrid; registers Resize, RoiAlign and MaxRoiPool too.
#include "ops/signal/image.h"

#include <algorithm>
#include <cmath>

#include "ops/common.h"
#include "ops/linear/compute_buffer.h"

namespace deepjit {

namespace {

enum class Sampling { NEAREST, LINEAR, CUBIC };
enum class Padding { ZEROS, BORDER, REFLECTION };

struct GridOptions {
  Sampling mode;
  Padding padding;
  bool align;
};

GridOptions grid_options(const Attributes& attrs) {
  const std::string mode = attrs.get_string("mode", "linear"), padding = attrs.get_string("padding_mode", "zeros");
  GridOptions o;
  o.align = attrs.get_int("align_corners", 0) != 0;
  if (mode == "nearest") {
    o.mode = Sampling::NEAREST;
  } else if (mode == "linear") {
    o.mode = Sampling::LINEAR;
  } else if (mode == "cubic") {
    o.mode = Sampling::CUBIC;
  } else {
    throw Error(Code::ATTRIBUTE, "GridSample: mode is \"" + mode + "\"");
  }
  if (padding == "zeros") {
    o.padding = Padding::ZEROS;
  } else if (padding == "border") {
    o.padding = Padding::BORDER;
  } else if (padding == "reflection") {
    o.padding = Padding::REFLECTION;
  } else {
    throw Error(Code::ATTRIBUTE, "GridSample: padding_mode is \"" + padding + "\"");
  }
  return o;
}

// Folds x back into [low, high] by mirroring at both ends.
double reflect(double x, double low, double high) {
  const double range = high - low;
  if (range <= 0) return low;
  const double distance = x < low ? low - x : x > high ? x - high : -1;
  if (distance < 0) return x;
  const double folds = std::floor(distance / range), rest = distance - folds * range;
  const bool even = std::fmod(folds, 2.0) == 0;
  return (x < low) == even ? low + rest : high - rest;
}

// Up to four positions along one dim with their weights.
struct AxisTaps {
  int count = 0;
  int64_t index[4];
  double weight[4];
};

AxisTaps axis_taps(const GridOptions& o, double normalized, int64_t length) {
  const double d = static_cast<double>(length);
  const double low = o.align ? 0.0 : -0.5, high = o.align ? d - 1 : d - 0.5;
  double x = o.align ? (normalized + 1) / 2 * (d - 1) : ((normalized + 1) * d - 1) / 2;
  if (!(std::fabs(x) < 1e12)) x = std::isnan(x) || x < 0 ? -1e12 : 1e12;
  if (o.mode == Sampling::NEAREST) x = std::nearbyint(x);
  if (x < low || x > high) {
    if (o.padding == Padding::BORDER) x = std::clamp(x, 0.0, d - 1);
    if (o.padding == Padding::REFLECTION) x = reflect(x, low, high);
  }
  AxisTaps taps;
  auto add = [&](double at, double weight) {
    if (o.padding == Padding::BORDER) at = std::clamp(at, 0.0, d - 1);
    if (o.padding == Padding::REFLECTION) at = std::clamp(std::trunc(reflect(at, low, high)), 0.0, d - 1);
    if (at < 0 || at >= d) return;  // zero padding
    taps.index[taps.count] = static_cast<int64_t>(at);
    taps.weight[taps.count++] = weight;
  };
  if (o.mode == Sampling::NEAREST) {
    add(std::trunc(x), 1);
    return taps;
  }
  const double base = std::floor(x), t = x - base;
  if (o.mode == Sampling::LINEAR) {
    add(base, 1 - t);
    add(base + 1, t);
    return taps;
  }
  constexpr double a = -0.75;
  auto outer = [](double s) { return ((a * s - 5 * a) * s + 8 * a) * s - 4 * a; };
  auto inner = [](double s) { return ((a + 2) * s - (a + 3)) * s * s + 1; };
  add(base - 1, outer(t + 1));
  add(base, inner(t));
  add(base + 1, inner(1 - t));
  add(base + 2, outer(2 - t));
  return taps;
}

// All pixels that one grid point mixes: the product of its axes' taps.
template <typename C>
void point_taps(const GridOptions& o, const C* point, const Dims& x, std::vector<std::pair<int64_t, C>>& out) {
  out.assign(1, {0, C(1)});
  const int spatial = x.rank() - 2;
  for (int d = 0; d < spatial; ++d) {
    const AxisTaps taps = axis_taps(o, static_cast<double>(point[spatial - 1 - d]), x[d + 2]);
    std::vector<std::pair<int64_t, C>> next;
    for (const auto& [at, weight] : out) {
      for (int i = 0; i < taps.count; ++i) {
        next.emplace_back(at * x[d + 2] + taps.index[i], weight * static_cast<C>(taps.weight[i]));
      }
    }
    out.swap(next);
  }
}

template <typename C>
void grid_sample(EvalContext& ctx) {
  const GridOptions o = grid_options(ctx.attrs());
  const Dims &x = ctx.dims(0), &grid = ctx.dims(1);
  const int spatial = x.rank() - 2;
  Dims result{x[0], x[1]};
  int64_t points = 1, plane = 1;
  for (int i = 0; i < spatial; ++i) {
    result.push_back(grid[i + 1]);
    points *= grid[i + 1];
    plane *= x[i + 2];
  }
  const C* in = read_compute<C>(ctx, 0);
  const C* coordinates = read_compute<C>(ctx, 1);
  ComputeOutput<C> out(ctx, 0, ctx.dtype(0), result);
  std::vector<std::pair<int64_t, C>> taps;
  for (int64_t n = 0; n < x[0]; ++n) {
    for (int64_t p = 0; p < points; ++p) {
      point_taps(o, coordinates + (n * points + p) * spatial, x, taps);
      for (int64_t c = 0; c < x[1]; ++c) {
        const C* image = in + (n * x[1] + c) * plane;
        C sum = 0;
        for (const auto& [at, weight] : taps) sum += weight * image[at];
        out.data()[(n * x[1] + c) * points + p] = sum;
      }
    }
  }
  out.finish();
}

void evaluate_grid_sample(EvalContext& ctx) {
  visit_compute(ctx.dtype(0), "GridSample", [&]<typename C>() { grid_sample<C>(ctx); });
}

void infer_grid_sample(InferContext& ctx) {
  expect_compute_float(ctx, "GridSample", 0);
  grid_options(ctx.attrs());
  const Shape &x = ctx.shape(0), &grid = ctx.shape(1);
  if (!x.ranked() || !grid.ranked()) return ctx.set_output(0, ctx.dtype(0), Shape());
  const bool last = x.rank() >= 3 && grid.rank() == x.rank() &&
                    (!grid[x.rank() - 1].is_const() || grid[x.rank() - 1] == x.rank() - 2);
  const bool batch = !last || !x[0].is_const() || !grid[0].is_const() || x[0] == grid[0];
  if (!last || !batch) {
    throw Error(Code::SHAPE_MISMATCH,
                "GridSample: the grid " + grid.to_string() + " does not fit the input " + x.to_string());
  }
  std::vector<Dim> y{x[0], x[1]};
  for (int i = 1; i + 1 < grid.rank(); ++i) y.push_back(grid[i]);
  ctx.set_output(0, ctx.dtype(0), Shape(y));
}

// Normalized coordinate of position i of `length`.
double grid_coordinate(int64_t i, int64_t length, bool align) {
  if (align) return length == 1 ? 0.0 : -1.0 + 2.0 * static_cast<double>(i) / static_cast<double>(length - 1);
  return -1.0 + (2.0 * static_cast<double>(i) + 1.0) / static_cast<double>(length);
}

void evaluate_affine_grid(EvalContext& ctx) {
  const std::vector<int64_t> size = ctx.ints(1);
  const bool align = ctx.attrs().get_int("align_corners", 0) != 0;
  const Dims& theta = ctx.dims(0);
  const int spatial = static_cast<int>(size.size()) - 2;
  if ((spatial != 2 && spatial != 3) || theta != Dims{size[0], spatial, spatial + 1}) {
    throw Error(Code::SHAPE_MISMATCH, "AffineGrid: theta " + theta.to_string() + " does not fit a size of " +
                                          std::to_string(size.size()) + " dims");
  }
  Dims result{size[0]};
  for (int i = 0; i < spatial; ++i) result.push_back(size[static_cast<size_t>(i + 2)]);
  const Dims inner(std::span<const int64_t>(result.begin() + 1, result.end()));
  const int64_t points = inner.count();
  result.push_back(spatial);
  visit_compute(ctx.dtype(0), "AffineGrid", [&]<typename C>() {
    const C* matrix = read_compute<C>(ctx, 0);
    ComputeOutput<C> out(ctx, 0, ctx.dtype(0), result);
    C* y = out.data();
    for (int64_t n = 0; n < size[0]; ++n, matrix += spatial * (spatial + 1)) {
      for (int64_t p = 0; p < points; ++p) {
        double at[3];  // x, y, z: the last dim first
        int64_t rest = p;
        for (int d = spatial - 1; d >= 0; --d) {
          at[spatial - 1 - d] = grid_coordinate(rest % inner[d], inner[d], align);
          rest /= inner[d];
        }
        for (int i = 0; i < spatial; ++i) {
          const C* row = matrix + i * (spatial + 1);
          double sum = static_cast<double>(row[spatial]);
          for (int k = 0; k < spatial; ++k) sum += static_cast<double>(row[k]) * at[k];
          *y++ = static_cast<C>(sum);
        }
      }
    }
    out.finish();
  });
}

void infer_affine_grid(InferContext& ctx) {
  expect_compute_float(ctx, "AffineGrid", 0);
  const Shape& theta = ctx.shape(0);
  const std::vector<Dim>* size = ctx.input_values(1);
  if (theta.ranked() && theta.rank() != 3) {
    throw Error(Code::SHAPE_MISMATCH, "AffineGrid: theta " + theta.to_string() + " does not have rank 3");
  }
  if (size != nullptr) {
    if (size->size() != 4 && size->size() != 5) throw Error(Code::SHAPE_MISMATCH, "AffineGrid: size needs 4 or 5 dims");
    std::vector<Dim> y{(*size)[0]};
    y.insert(y.end(), size->begin() + 2, size->end());
    y.push_back(Dim(static_cast<int64_t>(size->size()) - 2));
    return ctx.set_output(0, ctx.dtype(0), Shape(y));
  }
  if (!theta.ranked() || !theta[1].is_const()) return ctx.set_output(0, ctx.dtype(0), Shape());
  Shape y = ctx.fresh_shape(static_cast<int>(theta[1].value()) + 2);
  y[0] = theta[0];
  y[y.rank() - 1] = theta[1];
  ctx.set_output(0, ctx.dtype(0), y);
}

}  // namespace

void add_image_ops(OpRegistry& registry) {
  registry.add({.name = "GridSample",
                .min_inputs = 2,
                .max_inputs = 2,
                .infer = infer_grid_sample,
                .evaluate = evaluate_grid_sample});
  registry.add({.name = "AffineGrid",
                .min_inputs = 2,
                .max_inputs = 2,
                .infer = infer_affine_grid,
                .evaluate = evaluate_affine_grid,
                .shape_inputs = {1}});
  add_resize_op(registry);
  add_roi_ops(registry);
}

}  // namespace deepjit
