// MaxPool, AveragePool and LpPool, in both layouts. A pool walks the kernel's taps and combines each tap's image
// elements into the results, so the inner loop runs along the image's contiguous direction.
#include <cmath>
#include <limits>

#include "ops/common.h"
#include "ops/linear/compute_buffer.h"
#include "ops/linear/conv_shape.h"
#include "ops/linear/window.h"
#include "ops/nn/pool_families.h"

namespace deepjit {

namespace {

// Images are batch x (channel planes), or batch with `lanes` channels side by side.
struct Problem {
  ConvGeometry geometry;
  WindowMap map;
  int64_t images, lanes;
  Dims result;
};

Problem plan_pool(EvalContext& ctx) {
  const std::vector<int64_t> x = to_vector(ctx.dims(0));
  const bool last = is_channels_last(ctx.attrs());
  Problem p;
  p.geometry = pool_geometry(ctx.attrs(), spatial_dims(last, x));
  const int64_t channels = channel_dim(last, x);
  p.lanes = last ? channels : 1;
  p.images = last ? x[0] : x[0] * channels;
  p.map = window_map(p.geometry, last, p.lanes);
  const std::vector<int64_t> y = join_layout(last, x[0], channels, p.geometry.out);
  p.result = Dims(std::span<const int64_t>(y));
  return p;
}

// y = combine(y, x) for every window's elements, tap by tap; y starts as `initial`.
template <typename C, typename F>
void combine_windows(const Problem& p, const C* x, C* y, C initial, F combine) {
  const int64_t windows = p.map.window_count();
  const std::vector<int64_t> taps = touching_taps(p.map);
  const int64_t image = p.map.image_count() * p.lanes, block = window_block(p.lanes, windows);
  std::fill_n(y, p.images * windows * p.lanes, initial);
  for (int64_t n = 0; n < p.images; ++n, x += image, y += windows * p.lanes) {
    for (int64_t p0 = 0; p0 < windows; p0 += block) {
      for (int64_t tap : taps) {
        for_each_run(p.map, tap, p0, std::min(p0 + block, windows), [&](const WindowRun& r) {
          const C* in = x + r.offset;
          C* out = y + (p0 + r.column) * p.lanes;
          if (r.step == 1 && p.lanes == 1) {
            for (int64_t j = r.lo; j < r.hi; ++j) out[j] = combine(out[j], in[j]);
          } else if (p.lanes == 1) {
            for (int64_t j = r.lo; j < r.hi; ++j) out[j] = combine(out[j], in[j * r.step]);
          } else {
            for (int64_t j = r.lo; j < r.hi; ++j) {
              for (int64_t c = 0; c < p.lanes; ++c) {
                C& to = out[j * p.lanes + c];
                to = combine(to, in[j * r.step + c]);
              }
            }
          }
        });
      }
    }
  }
}

template <typename C>
C larger(C a, C b) {
  return b > a || b != b ? b : a;  // a NaN stays
}

template <typename C>
constexpr C lowest() {
  return std::numeric_limits<C>::has_infinity ? -std::numeric_limits<C>::infinity() : std::numeric_limits<C>::lowest();
}

// Image position -> the number MaxPool's Indices output gives it within its plane.
std::vector<int64_t> index_strides(const std::vector<int64_t>& image, bool column_major) {
  std::vector<int64_t> strides(image.size());
  int64_t stride = 1;
  for (size_t i = 0; i < image.size(); ++i) {
    const size_t d = column_major ? i : image.size() - 1 - i;
    strides[d] = stride;
    stride *= image[d];
  }
  return strides;
}

// Maximum and where it was found, channels first.
template <typename C>
void max_with_indices(const Problem& p, const C* x, bool column_major, C* y, int64_t* indices) {
  const int64_t windows = p.map.window_count(), plane = p.map.image_count();
  const std::vector<int64_t> taps = touching_taps(p.map);
  const std::vector<int64_t> strides = index_strides(p.map.image, column_major);
  std::fill_n(y, p.images * windows, lowest<C>());
  std::fill_n(indices, p.images * windows, int64_t{-1});
  for (int64_t n = 0; n < p.images; ++n) {
    for (int64_t tap : taps) {
      for_each_run(p.map, tap, 0, windows, [&](const WindowRun& r) {
        for (int64_t j = r.lo; j < r.hi; ++j) {
          const int64_t at = r.offset + j * r.step;
          const int64_t to = n * windows + r.column + j;
          const C value = x[n * plane + at];
          if (indices[to] >= 0 && !(value > y[to])) continue;
          y[to] = value;
          indices[to] = at;
        }
      });
    }
    for (int64_t i = n * windows; i < (n + 1) * windows; ++i) {
      int64_t rest = std::max<int64_t>(indices[i], 0), index = 0;
      for (size_t d = p.map.image.size(); d-- > 0;) {
        index += rest % p.map.image[d] * strides[d];
        rest /= p.map.image[d];
      }
      indices[i] = n * plane + index;
    }
  }
}

template <typename C>
void run_max(EvalContext& ctx, const Problem& p, const C* x, C* y) {
  if (!ctx.has_output(1)) return combine_windows(p, x, y, lowest<C>(), larger<C>);
  int64_t* indices = ctx.output(1, DType::INT64, p.result).as<int64_t>();
  if (p.result.count() == 0) return;
  max_with_indices(p, x, ctx.attrs().get_int("storage_order", 0) == 1, y, indices);
}

void evaluate_max_pool(EvalContext& ctx) {
  const Problem p = plan_pool(ctx);
  const DType dtype = ctx.dtype(0);
  if (dtype == DType::INT8)
    return run_max(ctx, p, ctx.data<const int8_t>(0), ctx.output(0, dtype, p.result).as<int8_t>());
  if (dtype == DType::UINT8) {
    return run_max(ctx, p, ctx.data<const uint8_t>(0), ctx.output(0, dtype, p.result).as<uint8_t>());
  }
  visit_compute(dtype, "MaxPool", [&]<typename C>() {
    ComputeOutput<C> out(ctx, 0, dtype, p.result);
    run_max(ctx, p, read_compute<C>(ctx, 0), out.data());
    out.finish();
  });
}

// Cells of each window along dim i that lie in [first, last) of the image's coordinates.
std::vector<int64_t> cells_along(const ConvGeometry& g, size_t i, int64_t first, int64_t last) {
  std::vector<int64_t> cells;
  for (int64_t w = 0; w < g.out[i]; ++w) {
    const auto [lo, hi] =
        positions_between(w * g.strides[i] - g.pads_begin[i], g.dilations[i], g.kernel[i], first, last);
    cells.push_back(hi - lo);
  }
  return cells;
}

// Divides every window's sum by its number of cells: those of the image, or of the image and its explicit padding.
template <typename C>
void divide_by_cells(const Problem& p, bool include_pad, C* y) {
  const ConvGeometry& g = p.geometry;
  std::vector<std::vector<int64_t>> cells;
  for (size_t i = 0; i < g.in.size(); ++i) {
    cells.push_back(include_pad ? cells_along(g, i, -g.pads_begin[i], g.in[i] + g.pads_end[i])
                                : cells_along(g, i, 0, g.in[i]));
  }
  const int64_t windows = p.map.window_count();
  for (int64_t w = 0; w < windows; ++w) {
    int64_t count = 1, rest = w;
    for (size_t d = g.out.size(); d-- > 0;) {
      count *= cells[d][static_cast<size_t>(rest % g.out[d])];
      rest /= g.out[d];
    }
    const C divisor = static_cast<C>(std::max<int64_t>(count, 1));
    for (int64_t n = 0; n < p.images; ++n) {
      for (int64_t c = 0; c < p.lanes; ++c) y[(n * windows + w) * p.lanes + c] /= divisor;
    }
  }
}

void evaluate_average_pool(EvalContext& ctx) {
  const Problem p = plan_pool(ctx);
  visit_compute(ctx.dtype(0), "AveragePool", [&]<typename C>() {
    ComputeOutput<C> out(ctx, 0, ctx.dtype(0), p.result);
    combine_windows(p, read_compute<C>(ctx, 0), out.data(), C(0), [](C a, C b) { return a + b; });
    divide_by_cells(p, ctx.attrs().get_int("count_include_pad", 0) != 0, out.data());
    out.finish();
  });
}

void evaluate_lp_pool(EvalContext& ctx) {
  const Problem p = plan_pool(ctx);
  const int64_t power = ctx.attrs().get_int("p", 2);
  visit_compute(ctx.dtype(0), "LpPool", [&]<typename C>() {
    ComputeOutput<C> out(ctx, 0, ctx.dtype(0), p.result);
    const C* x = read_compute<C>(ctx, 0);
    const C exponent = static_cast<C>(power);
    if (power == 2) {
      combine_windows(p, x, out.data(), C(0), [](C a, C b) { return a + b * b; });
    } else {
      combine_windows(p, x, out.data(), C(0), [=](C a, C b) { return a + std::pow(std::fabs(b), exponent); });
    }
    C* y = out.data();
    for (int64_t i = 0; i < p.result.count(); ++i)
      y[i] = power == 2 ? std::sqrt(y[i]) : std::pow(y[i], C(1) / exponent);
    out.finish();
  });
}

void infer_pool(InferContext& ctx) {
  const Shape& x = ctx.shape(0);
  const size_t spatial = ctx.attrs().get_ints("kernel_shape").size();
  const bool last = is_channels_last(ctx.attrs());
  Shape y;
  if (x.ranked()) {
    if (x.rank() < 3 || static_cast<size_t>(x.rank()) != spatial + 2) {
      throw Error(Code::SHAPE_MISMATCH,
                  "the input " + x.to_string() + " does not fit a kernel with " + std::to_string(spatial) + " dims");
    }
    const SymbolicConvGeometry g = pool_geometry(ctx.attrs(), spatial_dims(last, x.dims()));
    y = Shape(join_layout(last, x[0], channel_dim(last, x.dims()), g.out));
  }
  ctx.set_output(0, ctx.dtype(0), y);
  if (ctx.num_outputs() > 1) ctx.set_output(1, DType::INT64, y);
}

void infer_max_pool(InferContext& ctx) {
  const DType dtype = ctx.dtype(0);
  expect_type(ctx, "MaxPool", 0, is_compute_float(dtype) || dtype == DType::INT8 || dtype == DType::UINT8,
              "a tensor of floating-point numbers, int8 or uint8");
  infer_pool(ctx);
}

void infer_average_pool(InferContext& ctx) {
  expect_compute_float(ctx, "AveragePool", 0);
  infer_pool(ctx);
}

void infer_lp_pool(InferContext& ctx) {
  expect_compute_float(ctx, "LpPool", 0);
  if (ctx.attrs().get_int("p", 2) < 1) throw Error(Code::ATTRIBUTE, "p must be at least 1");
  infer_pool(ctx);
}

}  // namespace

void add_pool_ops(OpRegistry& registry) {
  registry.add({.name = "MaxPool", .max_outputs = 2, .infer = infer_max_pool, .evaluate = evaluate_max_pool});
  registry.add({.name = "AveragePool", .infer = infer_average_pool, .evaluate = evaluate_average_pool});
  registry.add({.name = "LpPool", .infer = infer_lp_pool, .evaluate = evaluate_lp_pool});
  registry.add({.name = "deepjit.MaxPool", .infer = infer_max_pool, .evaluate = evaluate_max_pool});
  registry.add({.name = "deepjit.AveragePool", .infer = infer_average_pool, .evaluate = evaluate_average_pool});
  add_global_pool_ops(registry);
}

}  // namespace deepjit
