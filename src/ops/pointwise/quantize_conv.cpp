// ConvInteger and QLinearConv: 8-bit operands, int32 sums. Padding holds the zero point, which adds nothing.
#include <algorithm>

#include "ops/common.h"
#include "ops/linear/conv_shape.h"
#include "ops/pointwise/quantize.h"
#include "ops/scalar.h"

namespace deepjit {

namespace {

void check_channels(const Shape& x, const Shape& w, int64_t group) {
  const bool known = x[1].is_const() && w[1].is_const();
  if (known && x[1].value() != w[1].value() * group) {
    throw Error(Code::SHAPE_MISMATCH, "input " + x.to_string() + " and weight " + w.to_string() +
                                          " do not fit with group " + std::to_string(group));
  }
  if (group < 1 || (w[0].is_const() && w[0].value() % group != 0)) {
    throw Error(Code::ATTRIBUTE, "group " + std::to_string(group) + " does not divide the output channels");
  }
}

Shape infer_conv(InferContext& ctx, int iw) {
  const Shape& x = ctx.shape(0);
  const Shape& w = ctx.shape(iw);
  if (!x.ranked() || !w.ranked()) return Shape();
  if (x.rank() < 3 || x.rank() != w.rank()) {
    throw Error(Code::SHAPE_MISMATCH, "input " + x.to_string() + " and weight " + w.to_string() + " do not fit");
  }
  check_channels(x, w, ctx.attrs().get_int("group", 1));
  std::vector<int64_t> kernel;
  for (int i = 2; i < w.rank(); ++i) {
    if (!w[i].is_const()) return ctx.fresh_shape(x.rank());
    kernel.push_back(w[i].value());
  }
  const SymbolicConvGeometry g = conv_geometry(ctx.attrs(), spatial_dims(false, x.dims()), kernel);
  return Shape(join_layout(false, x[0], w[0], g.out));
}

struct Problem {
  ConvGeometry g;
  int64_t batch, in_channels, out_channels, group_in, group_out;
  int64_t in_size = 1, out_size = 1, kernel_size = 1;  // spatial element counts
  Dims out;
};

Problem problem_of(const EvalContext& ctx, int iw) {
  const Dims& x = ctx.dims(0);
  const Dims& w = ctx.dims(iw);
  check_channels(Shape(x), Shape(w), ctx.attrs().get_int("group", 1));
  Problem p;
  p.g = conv_geometry(ctx.attrs(), spatial_dims(false, to_vector(x)), spatial_dims(false, to_vector(w)));
  p.batch = x[0];
  p.in_channels = x[1];
  p.out_channels = w[0];
  p.group_in = w[1];
  p.group_out = w[0] / p.g.group;
  for (int64_t d : p.g.in) p.in_size *= d;
  for (int64_t d : p.g.out) p.out_size *= d;
  for (int64_t d : p.g.kernel) p.kernel_size *= d;
  p.out = Dims(join_layout(false, p.batch, p.out_channels, p.g.out));
  return p;
}

// acc[out] += weight * x[in] for one tap over dims d and on; `tap` is the tap's index in each dim.
void add_tap(const ConvGeometry& g, size_t d, const std::vector<int64_t>& tap, int32_t weight, const int32_t* x,
             int32_t* acc) {
  int64_t in_stride = 1;
  int64_t out_stride = 1;
  for (size_t i = d + 1; i < g.in.size(); ++i) {
    in_stride *= g.in[i];
    out_stride *= g.out[i];
  }
  const int64_t start = tap[d] * g.dilations[d] - g.pads_begin[d];  // input position of output 0
  const int64_t stride = g.strides[d];
  const int64_t first = start >= 0 ? 0 : (-start + stride - 1) / stride;
  const int64_t last = start >= g.in[d] ? 0 : std::min(g.out[d], (g.in[d] - 1 - start) / stride + 1);
  if (first >= last) return;
  if (d + 1 == g.in.size()) {
    const int32_t* from = x + start + first * stride;
    if (stride == 1) return integer_axpy(acc + first, from, weight, last - first);
    for (int64_t o = first; o < last; ++o, from += stride) acc[o] += weight * *from;
    return;
  }
  for (int64_t o = first; o < last; ++o) {
    add_tap(g, d + 1, tap, weight, x + (start + o * stride) * in_stride, acc + o * out_stride);
  }
}

// One output channel: acc[out_size] += all taps of all its input channels.
void convolve_channel(const Problem& p, const int32_t* x, const int32_t* w, int32_t* acc) {
  std::vector<int64_t> tap(p.g.kernel.size(), 0);
  for (int64_t c = 0; c < p.group_in; ++c) {
    for (int64_t k = 0; k < p.kernel_size; ++k) {
      int64_t rest = k;
      for (size_t d = tap.size(); d-- > 0;) {
        tap[d] = rest % p.g.kernel[d];
        rest /= p.g.kernel[d];
      }
      const int32_t weight = w[c * p.kernel_size + k];
      if (weight != 0) add_tap(p.g, 0, tap, weight, x + c * p.in_size, acc);
    }
  }
}

// Calls done(batch, channel, acc) for each output plane.
template <typename Done>
void for_each_plane(EvalContext& ctx, const Problem& p, int iw, int32_t x_zero, const std::vector<int32_t>& w_zero,
                    const int32_t* bias, Done&& done) {
  const auto ints = [&](int64_t n) { return static_cast<int32_t*>(ctx.scratch(static_cast<size_t>(n) * 4)); };
  const int64_t filter = p.group_in * p.kernel_size;
  int32_t* w = ints(p.out_channels * filter);
  for (int64_t m = 0; m < p.out_channels; ++m) {
    widen(ctx.input(iw), m * filter, filter, w_zero[w_zero.size() == 1 ? 0 : static_cast<size_t>(m)], w + m * filter);
  }
  int32_t* x = ints(p.in_channels * p.in_size);
  int32_t* acc = ints(p.out_size);
  for (int64_t n = 0; n < p.batch; ++n) {
    widen(ctx.input(0), n * p.in_channels * p.in_size, p.in_channels * p.in_size, x_zero, x);
    for (int64_t m = 0; m < p.out_channels; ++m) {
      std::fill_n(acc, p.out_size, bias != nullptr ? bias[m] : 0);
      convolve_channel(p, x + m / p.group_out * p.group_in * p.in_size, w + m * filter, acc);
      done(n, m, static_cast<const int32_t*>(acc));
    }
  }
}

void check_per_channel(size_t count, int64_t channels, const char* what) {
  if (count == 1 || static_cast<int64_t>(count) == channels) return;
  throw Error(Code::SHAPE_MISMATCH, std::string(what) + " has " + std::to_string(count) + " elements, expected 1 or " +
                                        std::to_string(channels));
}

void infer_conv_integer(InferContext& ctx) {
  expect_8bit(ctx, "ConvInteger", 0);
  expect_8bit(ctx, "ConvInteger", 1);
  ctx.set_output(0, DType::INT32, infer_conv(ctx, 1));
}

void evaluate_conv_integer(EvalContext& ctx) {
  const Problem p = problem_of(ctx, 1);
  const std::vector<int32_t> w_zero = read_zero_points(ctx, 3);
  check_per_channel(w_zero.size(), p.out_channels, "w_zero_point");
  const TensorView out = ctx.output(0, DType::INT32, p.out);
  if (out.count() == 0) return;
  for_each_plane(ctx, p, 1, first_of(read_zero_points(ctx, 2), "x_zero_point"), w_zero, nullptr,
                 [&](int64_t n, int64_t m, const int32_t* acc) {
                   std::copy_n(acc, p.out_size, out.as<int32_t>() + (n * p.out_channels + m) * p.out_size);
                 });
}

void infer_qlinear_conv(InferContext& ctx) {
  for (int i : {0, 3, 7}) expect_8bit(ctx, "QLinearConv", i);
  expect_same_type(ctx, "QLinearConv", 2, 0);
  expect_same_type(ctx, "QLinearConv", 5, 3);
  if (ctx.has_input(8)) expect_type(ctx, "QLinearConv", 8, ctx.dtype(8) == DType::INT32, "int32");
  ctx.set_output(0, ctx.dtype(7), infer_conv(ctx, 3));
}

void evaluate_qlinear_conv(EvalContext& ctx) {
  const Problem p = problem_of(ctx, 3);
  const std::vector<float> w_scale = read_scales(ctx, 4);
  const std::vector<int32_t> w_zero = read_zero_points(ctx, 5);
  check_per_channel(w_scale.size(), p.out_channels, "w_scale");
  check_per_channel(w_zero.size(), p.out_channels, "w_zero_point");
  if (ctx.has_input(8) && ctx.input(8).count() != p.out_channels) {
    throw Error(Code::SHAPE_MISMATCH, "QLinearConv: the bias must have one element an output channel");
  }
  const float x_scale = first_of(read_scales(ctx, 1), "x_scale");
  const float y_scale = first_of(read_scales(ctx, 6), "y_scale");
  const int32_t y_zero = first_of(read_zero_points(ctx, 7), "y_zero_point");
  const TensorView out = ctx.output(0, ctx.dtype(7), p.out);
  if (out.count() == 0) return;
  const int32_t* bias = ctx.has_input(8) ? ctx.data<int32_t>(8) : nullptr;
  for_each_plane(ctx, p, 3, first_of(read_zero_points(ctx, 2), "x_zero_point"), w_zero, bias,
                 [&](int64_t n, int64_t m, const int32_t* acc) {
                   const float ws = w_scale[w_scale.size() == 1 ? 0 : static_cast<size_t>(m)];
                   uint8_t* y = out.as<uint8_t>() + (n * p.out_channels + m) * p.out_size;
                   requantize(acc, p.out_size, x_scale * ws / y_scale, y_zero, out.dtype, y);
                 });
}

}  // namespace

void add_integer_conv_ops(OpRegistry& registry) {
  registry.add({.name = "ConvInteger",
                .min_inputs = 2,
                .max_inputs = 4,
                .infer = infer_conv_integer,
                .evaluate = evaluate_conv_integer});
  registry.add({.name = "QLinearConv",
                .min_inputs = 8,
                .max_inputs = 9,
                .infer = infer_qlinear_conv,
                .evaluate = evaluate_qlinear_conv});
}

}  // namespace deepjit
