// ConvTranspose and deepjit.ConvTranspose: a matrix product into columns, then the columns added into the result.
#include "ops/common.h"
#include "ops/linear/compute_buffer.h"
#include "ops/linear/conv_families.h"
#include "ops/linear/conv_shape.h"
#include "ops/linear/epilogue.h"
#include "ops/linear/gemm.h"
#include "ops/linear/window.h"

namespace deepjit {

namespace {

struct Problem {
  WindowMap map;  // the image is the result, a window is an input position
  int64_t batch, in_channels, out_channels, group;
  bool channels_last;
};

template <typename C>
void convolve_transposed(EvalContext& ctx, const Problem& p, const C* x, const C* w, C* y) {
  const int64_t group_in = p.in_channels / p.group;
  const int64_t group_out = p.out_channels / p.group;
  const int64_t rows = group_out * p.map.kernel_count();
  const int64_t positions = p.map.window_count();
  const int64_t block = window_block(rows, positions);
  C* columns = scratch_array<C>(ctx, checked_mul(rows, block));
  const int64_t x_channel = p.channels_last ? 1 : positions;
  const int64_t x_position = p.channels_last ? p.in_channels : 1;
  for (int64_t n = 0; n < p.batch; ++n) {
    for (int64_t g = 0; g < p.group; ++g) {
      const C* from = x + n * p.in_channels * positions + g * group_in * x_channel;
      C* to = y + n * p.out_channels * p.map.image_count() + g * group_out * p.map.channel_stride;
      for (int64_t p0 = 0; p0 < positions; p0 += block) {
        const int64_t count = std::min(block, positions - p0);
        // W is [in][out * taps]; columns[out * taps][position] = sum over in.
        gemm<C>(rows, count, group_in, {w + g * group_in * rows, 1, rows},
                {from + p0 * x_position, x_channel, x_position}, columns, count);
        col2im(p.map, columns, group_out, p0, p0 + count, to);
      }
    }
  }
}

void evaluate_conv_transpose(EvalContext& ctx) {
  const std::vector<int64_t> x = to_vector(ctx.dims(0));
  const std::vector<int64_t> w = to_vector(ctx.dims(1));
  Problem p;
  p.channels_last = is_channels_last(ctx.attrs());
  const ConvGeometry g = conv_transpose_geometry(ctx.attrs(), spatial_dims(p.channels_last, x), spatial_dims(false, w));
  p.batch = x[0];
  p.in_channels = channel_dim(p.channels_last, x);
  p.out_channels = checked_mul(w[1], g.group);
  p.group = g.group;
  p.map = window_map(g, p.channels_last, p.out_channels, true);
  const std::vector<int64_t> y = join_layout(p.channels_last, p.batch, p.out_channels, g.out);
  visit_compute(ctx.dtype(0), "ConvTranspose", [&]<typename C>() {
    ComputeOutput<C> out(ctx, 0, ctx.dtype(0), Dims(std::span<const int64_t>(y)));
    if (out.view().count() == 0) return;
    fill_bias(read_optional<C>(ctx, 2), p.batch, p.out_channels, p.map.image_count(), p.channels_last, out.data());
    convolve_transposed(ctx, p, read_compute<C>(ctx, 0), read_compute<C>(ctx, 1), out.data());
    apply_epilogue(ctx, out.view());
    out.finish();
  });
}

void infer_conv_transpose(InferContext& ctx) {
  expect_compute_float(ctx, "ConvTranspose", 0);
  const Shape shape = infer_conv_transpose_shape(ctx);
  check_epilogue(ctx, shape);
  ctx.set_output(0, ctx.dtype(0), shape);
}

}  // namespace

void add_conv_transpose_ops(OpRegistry& registry) {
  registry.add({.name = "ConvTranspose",
                .min_inputs = 2,
                .max_inputs = 3,
                .infer = infer_conv_transpose,
                .evaluate = evaluate_conv_transpose});
  registry.add({.name = "deepjit.ConvTranspose",
                .min_inputs = 2,
                .max_inputs = kMany,
                .infer = infer_conv_transpose,
                .evaluate = evaluate_conv_transpose});
}

}  // namespace deepjit
