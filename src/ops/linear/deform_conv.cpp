// DeformConv (two spatial dims) and Col2Im (any number).
#include <cmath>

#include "ops/common.h"
#include "ops/linear/compute_buffer.h"
#include "ops/linear/conv_families.h"
#include "ops/linear/conv_shape.h"
#include "ops/linear/gemm.h"
#include "ops/linear/window.h"

namespace deepjit {

namespace {

// Bilinear sample of a plane; neighbours outside count as 0.
template <typename C>
C sample(const C* plane, int64_t height, int64_t width, C y, C x) {
  if (!(y > C(-1) && y < C(height) && x > C(-1) && x < C(width))) return C(0);
  const int64_t y0 = static_cast<int64_t>(std::floor(y));
  const int64_t x0 = static_cast<int64_t>(std::floor(x));
  const C dy = y - C(y0);
  const C dx = x - C(x0);
  auto at = [&](int64_t i, int64_t j) {
    return i >= 0 && i < height && j >= 0 && j < width ? plane[i * width + j] : C(0);
  };
  return (C(1) - dy) * ((C(1) - dx) * at(y0, x0) + dx * at(y0, x0 + 1)) +
         dy * ((C(1) - dx) * at(y0 + 1, x0) + dx * at(y0 + 1, x0 + 1));
}

// One channel of one image: columns[tap][window], sampled at the shifted positions.
template <typename C>
void deform_columns(const ConvGeometry& g, const C* plane, const C* offset, const C* mask, C* columns) {
  const int64_t windows = g.out[0] * g.out[1];
  for (int64_t tap = 0; tap < g.kernel[0] * g.kernel[1]; ++tap) {
    const int64_t ky = tap / g.kernel[1] * g.dilations[0] - g.pads_begin[0];
    const int64_t kx = tap % g.kernel[1] * g.dilations[1] - g.pads_begin[1];
    for (int64_t p = 0; p < windows; ++p) {
      const C y = C(p / g.out[1] * g.strides[0] + ky) + offset[2 * tap * windows + p];
      const C x = C(p % g.out[1] * g.strides[1] + kx) + offset[(2 * tap + 1) * windows + p];
      const C value = sample(plane, g.in[0], g.in[1], y, x);
      columns[tap * windows + p] = mask == nullptr ? value : value * mask[tap * windows + p];
    }
  }
}

template <typename C>
void deform_convolve(EvalContext& ctx, const ConvGeometry& g, int64_t offset_groups, C* y) {
  const Dims& xd = ctx.dims(0);
  const int64_t channels = xd[1], outs = ctx.dims(1)[0];
  const int64_t windows = g.out[0] * g.out[1], taps = g.kernel[0] * g.kernel[1], plane = g.in[0] * g.in[1];
  const int64_t group_in = channels / g.group, group_out = outs / g.group, rows = group_in * taps;
  const C* x = read_compute<C>(ctx, 0);
  const C* w = read_compute<C>(ctx, 1);
  const C* offset = read_compute<C>(ctx, 2);
  const C* mask = read_optional<C>(ctx, 4);
  C* columns = scratch_array<C>(ctx, checked_mul(rows, windows));
  for (int64_t n = 0; n < xd[0]; ++n) {
    for (int64_t group = 0; group < g.group; ++group) {
      for (int64_t c = 0; c < group_in; ++c) {
        const int64_t channel = group * group_in + c;
        const int64_t at = n * offset_groups + channel / (channels / offset_groups);
        deform_columns(g, x + (n * channels + channel) * plane, offset + at * 2 * taps * windows,
                       mask == nullptr ? nullptr : mask + at * taps * windows, columns + c * taps * windows);
      }
      gemm<C>(group_out, windows, rows, {w + group * group_out * rows, rows, 1}, {columns, windows, 1},
              y + (n * outs + group * group_out) * windows, windows, true);
    }
  }
}

void evaluate_deform_conv(EvalContext& ctx) {
  const std::vector<int64_t> x = to_vector(ctx.dims(0));
  const std::vector<int64_t> w = to_vector(ctx.dims(1));
  const ConvGeometry g = conv_geometry(ctx.attrs(), spatial_dims(false, x), spatial_dims(false, w));
  const int64_t offset_groups = ctx.attrs().get_int("offset_group", 1);
  visit_compute(ctx.dtype(0), "DeformConv", [&]<typename C>() {
    ComputeOutput<C> out(ctx, 0, ctx.dtype(0), {x[0], w[0], g.out[0], g.out[1]});
    if (out.view().count() == 0) return;
    fill_bias(read_optional<C>(ctx, 3), x[0], w[0], g.out[0] * g.out[1], false, out.data());
    deform_convolve(ctx, g, offset_groups, out.data());
    out.finish();
  });
}

void expect_dims(const Shape& shape, const std::vector<Dim>& expected, const std::string& what) {
  if (!shape.ranked()) return;
  bool fits = shape.rank() == static_cast<int>(expected.size());
  for (int i = 0; fits && i < shape.rank(); ++i) {
    const Dim& e = expected[static_cast<size_t>(i)];
    fits = !shape[i].is_const() || !e.is_const() || shape[i] == e;
  }
  if (!fits) {
    throw Error(Code::SHAPE_MISMATCH,
                what + " has shape " + shape.to_string() + ", expected " + Shape(expected).to_string());
  }
}

void infer_deform_conv(InferContext& ctx) {
  expect_compute_float(ctx, "DeformConv", 0);
  const Shape &x = ctx.shape(0), &w = ctx.shape(1);
  if (!x.ranked() || !w.ranked()) return ctx.set_output(0, ctx.dtype(0), Shape());
  if (x.rank() != 4 || w.rank() != 4) {
    throw Error(Code::SHAPE_MISMATCH, "DeformConv needs an input and weights of rank 4");
  }
  const int64_t group = ctx.attrs().get_int("group", 1);
  const int64_t offset_groups = ctx.attrs().get_int("offset_group", 1);
  if (group < 1 || offset_groups < 1) throw Error(Code::ATTRIBUTE, "group and offset_group must be positive");
  expect_dims(x, {x[0], w[1] * Dim(group), x[2], x[3]}, "the input");
  for (const Dim& d : {x[1], w[0]}) {
    if (d.is_const() && d.value() % group != 0) throw Error(Code::SHAPE_MISMATCH, "channels do not split into groups");
  }
  if (x[1].is_const() && x[1].value() % offset_groups != 0) {
    throw Error(Code::SHAPE_MISMATCH, "channels do not split into offset groups");
  }
  std::vector<int64_t> kernel = ctx.attrs().get_ints("kernel_shape");
  if (w[2].is_const() && w[3].is_const()) kernel = {w[2].value(), w[3].value()};
  if (kernel.empty()) return ctx.set_output(0, ctx.dtype(0), Shape({x[0], w[0], ctx.fresh_dim(), ctx.fresh_dim()}));
  const SymbolicConvGeometry g = conv_geometry(ctx.attrs(), std::vector<Dim>{x[2], x[3]}, kernel);
  const int64_t taps = checked_mul(checked_mul(offset_groups, g.kernel[0]), g.kernel[1]);
  expect_dims(ctx.shape(2), {x[0], Dim(2 * taps), g.out[0], g.out[1]}, "offset");
  if (ctx.has_input(3)) expect_dims(ctx.shape(3), {w[0]}, "the bias");
  if (ctx.has_input(4)) expect_dims(ctx.shape(4), {x[0], Dim(taps), g.out[0], g.out[1]}, "mask");
  ctx.set_output(0, ctx.dtype(0), Shape({x[0], w[0], g.out[0], g.out[1]}));
}

// The blocks of Col2Im are the windows of a Conv over the image.
ConvGeometry col2im_geometry(const Attributes& attrs, const std::vector<int64_t>& image, std::vector<int64_t> block) {
  return conv_geometry(attrs, image, std::move(block));
}

int64_t block_count(const std::vector<int64_t>& block) {
  for (int64_t b : block) {
    if (b < 1) throw Error(Code::SHAPE_MISMATCH, "block_shape has the entry " + std::to_string(b));
  }
  return WindowMap::product(block);
}

void evaluate_col2im(EvalContext& ctx) {
  const std::vector<int64_t> image = ctx.ints(1);
  const std::vector<int64_t> block = ctx.ints(2);
  const Dims& x = ctx.dims(0);
  const int64_t taps = block_count(block);
  const ConvGeometry g = col2im_geometry(ctx.attrs(), image, block);
  const int64_t channels = x[1] / taps;
  const WindowMap map = window_map(g, false, channels);
  if (x[1] % taps != 0 || x[2] != map.window_count()) {
    throw Error(Code::SHAPE_MISMATCH, "Col2Im: the input " + x.to_string() + " does not fit " +
                                          std::to_string(map.window_count()) + " blocks of " + std::to_string(taps));
  }
  const std::vector<int64_t> y = join_layout(false, x[0], channels, image);
  visit_compute(ctx.dtype(0), "Col2Im", [&]<typename C>() {
    ComputeOutput<C> out(ctx, 0, ctx.dtype(0), Dims(std::span<const int64_t>(y)));
    const int64_t count = out.view().count();
    std::fill_n(out.data(), count, C(0));
    const C* in = read_compute<C>(ctx, 0);
    for (int64_t n = 0; n < x[0] && count > 0; ++n) {
      col2im(map, in + n * x[1] * x[2], channels, 0, x[2], out.data() + n * channels * map.image_count());
    }
    out.finish();
  });
}

void infer_col2im(InferContext& ctx) {
  expect_compute_float(ctx, "Col2Im", 0);
  const Shape& x = ctx.shape(0);
  if (x.ranked() && x.rank() != 3) throw Error(Code::SHAPE_MISMATCH, "Col2Im needs an input of rank 3");
  const std::vector<Dim>* image = ctx.input_values(1);
  const std::optional<std::vector<int64_t>> block = ctx.constant_ints(2);
  if (image == nullptr) {
    const Shape& s = ctx.shape(1);
    const bool known = s.ranked() && s.rank() == 1 && s[0].is_const();
    return ctx.set_output(0, ctx.dtype(0), known ? ctx.fresh_shape(static_cast<int>(s[0].value()) + 2) : Shape());
  }
  const Dim batch = x.ranked() ? x[0] : ctx.fresh_dim();
  Dim channels = ctx.fresh_dim();
  if (x.ranked() && block) {
    const int64_t taps = block_count(*block);
    if (x[1].is_const() && x[1].value() % taps != 0) {
      throw Error(Code::SHAPE_MISMATCH,
                  "Col2Im: " + x[1].to_string() + " rows do not split into blocks of " + std::to_string(taps));
    }
    channels = floordiv(x[1], Dim(taps));
  }
  ctx.set_output(0, ctx.dtype(0), Shape(join_layout(false, batch, channels, *image)));
}

}  // namespace

void add_deform_conv_ops(OpRegistry& registry) {
  registry.add({.name = "DeformConv",
                .min_inputs = 3,
                .max_inputs = 5,
                .infer = infer_deform_conv,
                .evaluate = evaluate_deform_conv});
  registry.add({.name = "Col2Im",
                .min_inputs = 3,
                .max_inputs = 3,
                .infer = infer_col2im,
                .evaluate = evaluate_col2im,
                .shape_inputs = {1, 2}});
}

}  // namespace deepjit
