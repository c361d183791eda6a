// Conv and deepjit.Conv: the reference works by im2col and the matrix product, block by block of windows;
// depthwise convolution by direct sums.
#include "ops/common.h"
#include "ops/linear/compute_buffer.h"
#include "ops/linear/conv_families.h"
#include "ops/linear/conv_shape.h"
#include "ops/linear/epilogue.h"
#include "ops/linear/gemm.h"
#include "ops/linear/window.h"

namespace deepjit {

namespace {

// One convolution: sizes, layout and the window walk.
struct Problem {
  WindowMap map;
  int64_t batch, in_channels, out_channels, group;
  bool channels_last;

  int64_t group_in() const { return in_channels / group; }
  int64_t group_out() const { return out_channels / group; }
  bool depthwise() const { return group_in() == 1 && (group_out() == 1 || !channels_last) && group > 1; }
};

// Group g of one image, through columns. x and y point at the image's first element of the group.
template <typename C>
void convolve_columns(const Problem& p, const C* x, const C* w, C* columns, C* y) {
  const int64_t rows = p.group_in() * p.map.kernel_count();
  const int64_t windows = p.map.window_count();
  const int64_t m = p.group_out();
  const int64_t block = p.map.is_identity() ? windows : window_block(rows, windows);
  for (int64_t p0 = 0; p0 < windows; p0 += block) {
    const int64_t n = std::min(block, windows - p0);
    MatrixRef<C> patches{columns, n, 1};  // rows x n
    if (p.map.is_identity()) {
      patches = {x, p.map.channel_stride, p.channels_last ? p.in_channels : 1};
    } else {
      im2col(p.map, x, p.group_in(), p0, p0 + n, columns);
    }
    if (p.channels_last) {
      gemm<C>(n, m, rows, {patches.data, patches.column, patches.row}, {w, 1, rows}, y + p0 * p.out_channels,
              p.out_channels, true);
    } else {
      gemm<C>(m, n, rows, {w, rows, 1}, patches, y + p0, windows, true);
    }
  }
}

// One input channel per output channel, channels first.
template <typename C>
void convolve_depthwise_planes(const Problem& p, const C* x, const C* w, C* y) {
  const int64_t windows = p.map.window_count();
  const int64_t taps = p.map.kernel_count();
  for (int64_t m = 0; m < p.out_channels; ++m) {
    const C* plane = x + (m / p.group_out()) * p.map.channel_stride;
    C* out = y + m * windows;
    for (int64_t tap = 0; tap < taps; ++tap) {
      const C weight = w[m * taps + tap];
      for_each_run(p.map, tap, 0, windows, [&](const WindowRun& r) {
        const C* in = plane + r.offset;
        C* to = out + r.column;
        if (r.step == 1) {
          for (int64_t j = r.lo; j < r.hi; ++j) to[j] += weight * in[j];
        } else {
          for (int64_t j = r.lo; j < r.hi; ++j) to[j] += weight * in[j * r.step];
        }
      });
    }
  }
}

// The same, channels last. w is [tap][channel].
template <typename C>
void convolve_depthwise_last(const Problem& p, const C* x, const C* w, C* y) {
  const int64_t windows = p.map.window_count();
  const int64_t channels = p.out_channels;
  const int64_t block = window_block(channels, windows);
  for (int64_t p0 = 0; p0 < windows; p0 += block) {
    for (int64_t tap = 0; tap < p.map.kernel_count(); ++tap) {
      const C* weights = w + tap * channels;
      for_each_run(p.map, tap, p0, std::min(p0 + block, windows), [&](const WindowRun& r) {
        for (int64_t j = r.lo; j < r.hi; ++j) {
          const C* in = x + r.offset + j * r.step;
          C* out = y + (p0 + r.column + j) * channels;
          for (int64_t c = 0; c < channels; ++c) out[c] += weights[c] * in[c];
        }
      });
    }
  }
}

template <typename C>
void convolve(EvalContext& ctx, const Problem& p, const C* x, const C* w, C* y) {
  const int64_t taps = p.map.kernel_count();
  const int64_t x_image = p.in_channels * p.map.image_count();
  const int64_t y_image = p.out_channels * p.map.window_count();
  if (p.depthwise()) {
    if (p.channels_last) {
      C* turned = scratch_array<C>(ctx, taps * p.out_channels);
      for (int64_t c = 0; c < p.out_channels; ++c) {
        for (int64_t t = 0; t < taps; ++t) turned[t * p.out_channels + c] = w[c * taps + t];
      }
      w = turned;
    }
    for (int64_t n = 0; n < p.batch; ++n) {
      auto run = p.channels_last ? convolve_depthwise_last<C> : convolve_depthwise_planes<C>;
      run(p, x + n * x_image, w, y + n * y_image);
    }
    return;
  }
  const int64_t rows = p.group_in() * taps;
  C* columns = nullptr;
  if (!p.map.is_identity())
    columns = scratch_array<C>(ctx, checked_mul(rows, window_block(rows, p.map.window_count())));
  for (int64_t n = 0; n < p.batch; ++n) {
    for (int64_t g = 0; g < p.group; ++g) {
      convolve_columns(p, x + n * x_image + g * p.group_in() * p.map.channel_stride, w + g * p.group_out() * rows,
                       columns, y + n * y_image + g * p.group_out() * (p.channels_last ? 1 : p.map.window_count()));
    }
  }
}

void evaluate_conv(EvalContext& ctx) {
  const std::vector<int64_t> x = to_vector(ctx.dims(0));
  const std::vector<int64_t> w = to_vector(ctx.dims(1));
  Problem p;
  p.channels_last = is_channels_last(ctx.attrs());
  const ConvGeometry g = conv_geometry(ctx.attrs(), spatial_dims(p.channels_last, x), spatial_dims(false, w));
  p.batch = x[0];
  p.in_channels = channel_dim(p.channels_last, x);
  p.out_channels = w[0];
  p.group = g.group;
  p.map = window_map(g, p.channels_last, p.in_channels);
  const std::vector<int64_t> y = join_layout(p.channels_last, p.batch, p.out_channels, g.out);
  visit_compute(ctx.dtype(0), "Conv", [&]<typename C>() {
    ComputeOutput<C> out(ctx, 0, ctx.dtype(0), Dims(std::span<const int64_t>(y)));
    if (out.view().count() == 0) return;
    fill_bias(read_optional<C>(ctx, 2), p.batch, p.out_channels, p.map.window_count(), p.channels_last, out.data());
    convolve(ctx, p, read_compute<C>(ctx, 0), read_compute<C>(ctx, 1), out.data());
    apply_epilogue(ctx, out.view());
    out.finish();
  });
}

void infer_conv(InferContext& ctx) {
  expect_compute_float(ctx, "Conv", 0);
  const Shape shape = infer_conv_shape(ctx);
  check_epilogue(ctx, shape);
  ctx.set_output(0, ctx.dtype(0), shape);
}

}  // namespace

void add_conv_ops(OpRegistry& registry) {
  registry.add({.name = "Conv", .min_inputs = 2, .max_inputs = 3, .infer = infer_conv, .evaluate = evaluate_conv});
  registry.add(
      {.name = "deepjit.Conv", .min_inputs = 2, .max_inputs = kMany, .infer = infer_conv, .evaluate = evaluate_conv});
  add_conv_transpose_ops(registry);
  add_deform_conv_ops(registry);
}

}  // namespace deepjit
