#include "ops/linear/conv_shape.h"

#include <algorithm>

namespace deepjit {

namespace {

int64_t floordiv(int64_t a, int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }
int64_t ceildiv(int64_t a, int64_t b) { return -floordiv(-a, b); }
int64_t max(int64_t a, int64_t b) { return std::max(a, b); }
int64_t min(int64_t a, int64_t b) { return std::min(a, b); }
std::optional<int64_t> as_const(int64_t v) { return v; }
std::optional<int64_t> as_const(const Dim& d) { return d.as_const(); }

constexpr int64_t kLargestPad = int64_t{1} << 40;  // sums of some sizes below it do not overflow

[[noreturn]] void bad_attribute(const std::string& text) { throw Error(Code::ATTRIBUTE, text); }

// A pad or size that an attribute gives.
void check_size(const std::string& name, int64_t size) {
  if (size < 0 || size > kLargestPad) bad_attribute(name + " has the entry " + std::to_string(size));
}

// The list attribute `name` with one positive entry per spatial dim, or all 1.
std::vector<int64_t> window_attribute(const Attributes& attrs, const std::string& name, size_t rank) {
  std::vector<int64_t> values = attrs.get_ints(name);
  if (values.empty()) values.assign(rank, 1);
  if (values.size() != rank) {
    bad_attribute(name + " has " + std::to_string(values.size()) + " entries for " + std::to_string(rank) +
                  " spatial dims");
  }
  constexpr int64_t kLargest = int64_t{1} << 31;
  for (int64_t v : values) {
    if (v < 1 || v > kLargest) bad_attribute(name + " has the entry " + std::to_string(v));
  }
  return values;
}

std::vector<int64_t> kernel_of(const Attributes& attrs, std::vector<int64_t> kernel, size_t rank) {
  const std::vector<int64_t> given = attrs.get_ints("kernel_shape");
  if (kernel.empty()) kernel = given;
  if (!given.empty() && given != kernel) bad_attribute("kernel_shape does not agree with the weights");
  if (kernel.size() != rank) {
    throw Error(Code::SHAPE_MISMATCH, "the kernel has " + std::to_string(kernel.size()) + " dims, the input " +
                                          std::to_string(rank) + " spatial dims");
  }
  for (int64_t k : kernel) {
    if (k < 1 || k > int64_t{1} << 31) throw Error(Code::SHAPE_MISMATCH, "a kernel dim is " + std::to_string(k));
  }
  return kernel;
}

enum class AutoPad { NOTSET, SAME_UPPER, SAME_LOWER, VALID };

AutoPad auto_pad_of(const Attributes& attrs) {
  const std::string text = attrs.get_string("auto_pad", "NOTSET");
  if (text == "NOTSET" || text.empty()) return AutoPad::NOTSET;
  if (text == "SAME_UPPER") return AutoPad::SAME_UPPER;
  if (text == "SAME_LOWER") return AutoPad::SAME_LOWER;
  if (text == "VALID") return AutoPad::VALID;
  bad_attribute("auto_pad has the value \"" + text + "\"");
}

// Everything but in-dependent pads and out: kernel, strides, dilations, group, in, explicit pads.
template <typename D>
BasicConvGeometry<D> base_geometry(const Attributes& attrs, const std::vector<D>& in, std::vector<int64_t> kernel) {
  BasicConvGeometry<D> g;
  const size_t rank = in.size();
  g.in = in;
  g.kernel = kernel_of(attrs, std::move(kernel), rank);
  g.strides = window_attribute(attrs, "strides", rank);
  g.dilations = window_attribute(attrs, "dilations", rank);
  for (size_t i = 0; i < rank; ++i) checked_mul(g.kernel[i], g.dilations[i]);
  g.group = attrs.get_int("group", 1);
  if (g.group < 1) bad_attribute("group is " + std::to_string(g.group));
  g.pads_begin.assign(rank, D(0));
  g.pads_end.assign(rank, D(0));
  g.out.assign(rank, D(0));
  const std::vector<int64_t> pads = attrs.get_ints("pads");
  if (pads.empty() || auto_pad_of(attrs) != AutoPad::NOTSET) return g;
  if (pads.size() != 2 * rank) bad_attribute("pads has " + std::to_string(pads.size()) + " entries");
  for (size_t i = 0; i < 2 * rank; ++i) {
    check_size("pads", pads[i]);
    (i < rank ? g.pads_begin[i] : g.pads_end[i - rank]) = D(pads[i]);
  }
  return g;
}

template <typename D>
void split_padding(const D& total, bool smaller_first, D& begin, D& end) {
  const D half = floordiv(total, D(2));
  begin = smaller_first ? half : total - half;
  end = total - begin;
}

// SAME padding of dim i: out = ceil(in / stride).
template <typename D>
void pad_same(BasicConvGeometry<D>& g, size_t i, AutoPad mode) {
  g.out[i] = ceildiv(g.in[i], D(g.strides[i]));
  const D total = max((g.out[i] - D(1)) * D(g.strides[i]) + D(g.extent(i)) - g.in[i], D(0));
  split_padding(total, mode == AutoPad::SAME_UPPER, g.pads_begin[i], g.pads_end[i]);
}

template <typename D>
void check_fits(const BasicConvGeometry<D>& g, size_t i) {
  const std::optional<int64_t> in = as_const(g.in[i]);
  const std::optional<int64_t> padded = as_const(g.in[i] + g.pads_begin[i] + g.pads_end[i]);
  if (!in || !padded || *in == 0 || *padded >= g.extent(i)) return;
  throw Error(Code::SHAPE_MISMATCH, "the window of " + std::to_string(g.extent(i)) +
                                        " does not fit into the padded input of " + std::to_string(*padded) +
                                        " (spatial dim " + std::to_string(i) + ")");
}

// An empty input dim gives an empty result whatever the window.
template <typename D>
D at_least_zero(const D& value) {
  const std::optional<int64_t> known = as_const(value);
  return known && *known < 0 ? D(0) : value;
}

// Windows that lie whole in the padded input; `partial` lets one that is larger pass.
template <typename D>
BasicConvGeometry<D> whole_windows(const Attributes& attrs, const std::vector<D>& in, std::vector<int64_t> kernel,
                                   bool partial) {
  BasicConvGeometry<D> g = base_geometry(attrs, in, std::move(kernel));
  const AutoPad mode = auto_pad_of(attrs);
  for (size_t i = 0; i < in.size(); ++i) {
    if (mode == AutoPad::SAME_UPPER || mode == AutoPad::SAME_LOWER) {
      pad_same(g, i, mode);
      continue;
    }
    if (!partial) check_fits(g, i);
    const D room = g.in[i] + g.pads_begin[i] + g.pads_end[i] - D(g.extent(i));
    g.out[i] = at_least_zero<D>(floordiv(room, D(g.strides[i])) + D(1));
  }
  return g;
}

}  // namespace

template <typename D>
BasicConvGeometry<D> conv_geometry(const Attributes& attrs, const std::vector<D>& in, std::vector<int64_t> kernel) {
  return whole_windows(attrs, in, std::move(kernel), false);
}

template <typename D>
BasicConvGeometry<D> pool_geometry(const Attributes& attrs, const std::vector<D>& in) {
  const std::vector<int64_t> kernel = attrs.get_ints("kernel_shape");
  if (kernel.empty()) bad_attribute("kernel_shape is missing");
  const bool ceil = attrs.get_int("ceil_mode", 0) != 0 && auto_pad_of(attrs) == AutoPad::NOTSET;
  BasicConvGeometry<D> g = whole_windows(attrs, in, kernel, ceil);
  if (!ceil) return g;
  for (size_t i = 0; i < in.size(); ++i) {
    const D stride(g.strides[i]);
    const D room = g.in[i] + g.pads_begin[i] + g.pads_end[i] - D(g.extent(i));
    const D windows = ceildiv(room, stride) + D(1);
    if (const auto known = as_const(windows); known && *known < 1) check_fits(g, i);
    const D starts_inside = floordiv(g.in[i] + g.pads_begin[i] - D(1), stride) + D(1);
    g.out[i] = at_least_zero<D>(min(windows, starts_inside));
  }
  return g;
}

template <typename D>
BasicConvGeometry<D> conv_transpose_geometry(const Attributes& attrs, const std::vector<D>& in,
                                             std::vector<int64_t> kernel) {
  BasicConvGeometry<D> g = base_geometry(attrs, in, std::move(kernel));
  const size_t rank = in.size();
  const AutoPad mode = auto_pad_of(attrs);
  std::vector<int64_t> extra = attrs.get_ints("output_padding");
  if (extra.empty()) extra.assign(rank, 0);
  if (extra.size() != rank) bad_attribute("output_padding has " + std::to_string(extra.size()) + " entries");
  std::vector<int64_t> wanted = attrs.get_ints("output_shape");
  if (wanted.size() == rank + 2) wanted.erase(wanted.begin(), wanted.begin() + 2);
  if (!wanted.empty() && wanted.size() != rank) {
    bad_attribute("output_shape has " + std::to_string(wanted.size()) + " entries");
  }
  for (size_t i = 0; i < rank; ++i) {
    check_size("output_padding", extra[i]);
    const D full = (g.in[i] - D(1)) * D(g.strides[i]) + D(g.extent(i) + extra[i]);
    const bool same = mode == AutoPad::SAME_UPPER || mode == AutoPad::SAME_LOWER;
    if (wanted.empty() && !same) {
      g.out[i] = full - g.pads_begin[i] - g.pads_end[i];
      const std::optional<int64_t> known = as_const(g.out[i]);
      if (known && *known < 0 && !(as_const(g.in[i]) == 0)) {
        throw Error(Code::SHAPE_MISMATCH,
                    "the pads cut more than the whole result (spatial dim " + std::to_string(i) + ")");
      }
      g.out[i] = at_least_zero<D>(g.out[i]);
      continue;
    }
    if (!wanted.empty()) check_size("output_shape", wanted[i]);
    g.out[i] = wanted.empty() ? g.in[i] * D(g.strides[i]) : D(wanted[i]);
    split_padding<D>(max(full - g.out[i], D(0)), mode == AutoPad::SAME_UPPER, g.pads_begin[i], g.pads_end[i]);
  }
  return g;
}

template ConvGeometry conv_geometry(const Attributes&, const std::vector<int64_t>&, std::vector<int64_t>);
template SymbolicConvGeometry conv_geometry(const Attributes&, const std::vector<Dim>&, std::vector<int64_t>);
template ConvGeometry pool_geometry(const Attributes&, const std::vector<int64_t>&);
template SymbolicConvGeometry pool_geometry(const Attributes&, const std::vector<Dim>&);
template ConvGeometry conv_transpose_geometry(const Attributes&, const std::vector<int64_t>&, std::vector<int64_t>);
template SymbolicConvGeometry conv_transpose_geometry(const Attributes&, const std::vector<Dim>&, std::vector<int64_t>);

bool is_channels_last(const Attributes& attrs) {
  const std::string layout = attrs.get_string("layout", "NCHW");
  if (layout == "NCHW") return false;
  if (layout == "NHWC") return true;
  bad_attribute("layout has the value \"" + layout + "\"");
}

namespace {

void expect_dim(const Dim& actual, const Dim& expected, const std::string& what) {
  if (actual.is_const() && expected.is_const() && !(actual == expected)) {
    throw Error(Code::SHAPE_MISMATCH, what + ": expected " + expected.to_string() + ", got " + actual.to_string());
  }
}

// The rank of X, from X or else from W; -1 when neither is known.
int input_rank(const InferContext& ctx) {
  const Shape& x = ctx.shape(0);
  const Shape& w = ctx.shape(1);
  const int rank = x.ranked() ? x.rank() : w.ranked() ? w.rank() : -1;
  if (x.ranked() && w.ranked() && x.rank() != w.rank()) {
    throw Error(Code::SHAPE_MISMATCH,
                "the input has rank " + std::to_string(x.rank()) + ", the weights rank " + std::to_string(w.rank()));
  }
  if (rank >= 0 && rank < 3) {
    throw Error(Code::SHAPE_MISMATCH, "the input has rank " + std::to_string(rank) + ", at least 3 is needed");
  }
  return rank;
}

// W's spatial dims when all are known, else the kernel_shape attribute; empty when neither helps.
std::vector<int64_t> known_kernel(const InferContext& ctx) {
  const Shape& w = ctx.shape(1);
  std::vector<int64_t> kernel;
  if (w.ranked()) {
    for (int i = 2; i < w.rank(); ++i) {
      if (w[i].is_const()) kernel.push_back(w[i].value());
    }
    if (static_cast<int>(kernel.size()) == w.rank() - 2) return kernel;
  }
  return ctx.attrs().get_ints("kernel_shape");
}

void check_same_types(const InferContext& ctx) {
  for (int i = 1; i < std::min(ctx.num_inputs(), 3); ++i) {
    if (!ctx.has_input(i) || ctx.dtype(i) == ctx.dtype(0)) continue;
    throw Error(Code::TYPE, "input " + std::to_string(i) + " is " + std::string(dtype_name(ctx.dtype(i))) +
                                ", input 0 is " + std::string(dtype_name(ctx.dtype(0))));
  }
}

void check_bias(const InferContext& ctx, const Dim& channels) {
  if (!ctx.has_input(2) || !ctx.shape(2).ranked()) return;
  if (ctx.shape(2).rank() != 1) {
    throw Error(Code::SHAPE_MISMATCH,
                "the bias has shape " + ctx.shape(2).to_string() + ", expected [" + channels.to_string() + "]");
  }
  expect_dim(ctx.shape(2)[0], channels, "bias");
}

Shape infer_shape(InferContext& ctx, bool transpose) {
  check_same_types(ctx);
  const bool last = is_channels_last(ctx.attrs());
  const int rank = input_rank(ctx);
  if (rank < 0) return Shape();
  const std::vector<Dim> x = ctx.shape(0).ranked() ? ctx.shape(0).dims() : ctx.fresh_shape(rank).dims();
  const std::vector<Dim> w = ctx.shape(1).ranked() ? ctx.shape(1).dims() : ctx.fresh_shape(rank).dims();
  const int64_t group = ctx.attrs().get_int("group", 1);
  if (group < 1) throw Error(Code::ATTRIBUTE, "group is " + std::to_string(group));
  const Dim in_channels = channel_dim(last, x);
  Dim out_channels = transpose ? w[1] * Dim(group) : w[0];
  expect_dim(in_channels, transpose ? w[0] : w[1] * Dim(group), "channels of the input");
  const Dim& split = w[0];
  if (group > 1 && split.is_const() && split.value() % group != 0) {
    throw Error(Code::SHAPE_MISMATCH,
                split.to_string() + " channels do not split into " + std::to_string(group) + " groups");
  }
  check_bias(ctx, out_channels);
  const std::vector<int64_t> kernel = known_kernel(ctx);
  const std::vector<Dim> spatial = spatial_dims(last, x);
  if (kernel.empty()) {
    return Shape(join_layout(last, x[0], out_channels, ctx.fresh_shape(rank - 2).dims()));
  }
  const SymbolicConvGeometry g =
      transpose ? conv_transpose_geometry(ctx.attrs(), spatial, kernel) : conv_geometry(ctx.attrs(), spatial, kernel);
  return Shape(join_layout(last, x[0], out_channels, g.out));
}

}  // namespace

Shape infer_conv_shape(InferContext& ctx) { return infer_shape(ctx, false); }
Shape infer_conv_transpose_shape(InferContext& ctx) { return infer_shape(ctx, true); }

}  // namespace deepjit
