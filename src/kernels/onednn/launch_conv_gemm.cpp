#include <algorithm>

#include "kernels/onednn/conv_gemm.h"
#include "kernels/onednn/post_ops.h"
#include "kernels/onednn/problems.h"
#include "kernels/onednn/windows.h"

namespace deepjit::onednn {

namespace {

using MatmulDesc = dnnl::matmul::primitive_desc;

constexpr int64_t kMaxWindowFloats = 1 << 20;  // copied windows beyond this leave the cache

struct Problem {
  ConvGeometry g;
  bool channels_last = false;
  int64_t batch = 0, channels = 0, out_channels = 0;
  int64_t positions = 0, taps = 0;  // of one image, of one window
  bool unpadded = false, unit_strides = false;
  std::string reason;  // why no product does it

  int64_t rows() const { return batch * positions; }
  int64_t depth() const { return taps * channels; }
  bool pointwise() const { return taps == 1 && unit_strides && unpadded; }
  // The image is the matrix of windows as it lies.
  bool rows_lie() const {
    if (pointwise()) return channels_last || positions == 1 || channels == 1;
    return positions == 1 && unpadded && std::equal(g.kernel.begin(), g.kernel.end(), g.in.begin());
  }
  // The one spatial dim that is not 1 in the image, the kernel and the result; -1 when there are several.
  int sliding_dim() const {
    int found = 0, several = 0;
    for (size_t i = 0; i < g.in.size(); ++i) {
      if (g.in[i] == 1 && g.kernel[i] == 1 && g.out[i] == 1) continue;
      found = static_cast<int>(i);
      ++several;
    }
    return several > 1 ? -1 : found;
  }
};

Problem describe_problem(const StepShape& shape) {
  Problem p;
  const Dims &x = in(shape, 0).dims, &w = in(shape, 1).dims;
  if (x.rank() < 3 || x.rank() > 5) {
    p.reason = "1 to 3 spatial dims";
    return p;
  }
  p.channels_last = is_channels_last(shape.step->attrs);
  const std::vector<int64_t> kernel = spatial_dims(false, to_vector(w));
  p.g = conv_geometry(shape.step->attrs, spatial_dims(p.channels_last, to_vector(x)), kernel);
  if (p.g.group != 1) p.reason = "groups";
  p.batch = x[0];
  p.channels = w[1];
  p.out_channels = w[0];
  p.positions = p.taps = 1;
  p.unpadded = p.unit_strides = true;
  for (size_t i = 0; i < kernel.size(); ++i) {
    p.positions *= p.g.out[i];
    p.taps *= kernel[i];
    p.unpadded = p.unpadded && p.g.pads_begin[i] == 0 && p.g.pads_end[i] <= 0;
    p.unit_strides = p.unit_strides && p.g.strides[i] == 1;
  }
  return p;
}

// An operand of the epilogue as [batch, positions, channels], or nothing when it broadcasts over some positions only.
std::optional<Dims> operand_dims(const Problem& p, Dims dims) {
  const int rank = static_cast<int>(p.g.in.size()) + 2;
  if (dims.rank() > rank) return std::nullopt;
  pad_rank(dims, rank);
  const int first = p.channels_last ? 1 : 2;
  int64_t positions = 1;
  for (size_t i = 0; i < p.g.in.size(); ++i) positions *= dims[first + static_cast<int>(i)];
  if (positions != 1 && positions != p.positions) return std::nullopt;
  return Dims{dims[0], positions, p.channels_last ? dims[rank - 1] : dims[1]};
}

// The operand against [rows, channels].
memory::desc row_operand(const Problem& p, const Dims& dims) {
  const std::optional<Dims> d = operand_dims(p, dims);
  if (!d) return memory::desc();
  const int64_t rows = (*d)[0] * (*d)[1], channels = (*d)[2];
  if (rows != 1 && rows != p.rows()) return memory::desc();
  if (!p.channels_last && rows > 1 && channels > 1 && (*d)[1] > 1) return memory::desc();
  return plain_desc(DType::FLOAT32, Dims{rows, channels});
}

// ... against [batch, positions, channels] of a channels-last result.
memory::desc batch_operand(const Problem& p, const Dims& dims) {
  const std::optional<Dims> d = operand_dims(p, dims);
  return d ? plain_desc(DType::FLOAT32, *d) : memory::desc();
}

// ... against [batch, channels, positions] of a channels-first result.
memory::desc channel_operand(const Problem& p, const Dims& dims) {
  const std::optional<Dims> d = operand_dims(p, dims);
  return d ? plain_desc(DType::FLOAT32, Dims{(*d)[0], (*d)[2], (*d)[1]}) : memory::desc();
}

// One of the products that make up a convolution.
struct TapProduct {
  memory::desc a, b, bias, y;
  PostOps post_ops;
  std::string reason;

  MatmulDesc create() const {
    dnnl::primitive_attr attr = base_attr();
    attr.set_post_ops(post_ops.ops);
    return bias.is_zero() ? MatmulDesc(engine(), a, b, y, attr, true) : MatmulDesc(engine(), a, b, bias, y, attr, true);
  }
};

TapProduct row_product(const StepShape& shape, const Problem& p) {
  TapProduct m;
  const bool copied = !p.rows_lie();
  if (copied && p.rows() * p.depth() > kMaxWindowFloats) m.reason = "the windows are too large to copy";
  m.a = plain_desc(DType::FLOAT32, Dims{p.rows(), p.depth()});
  m.b = any_desc(DType::FLOAT32, Dims{p.depth(), p.out_channels});
  m.y = plain_desc(DType::FLOAT32, Dims{p.rows(), p.out_channels});
  if (has_input(shape, 2)) m.bias = plain_desc(DType::FLOAT32, Dims{1, p.out_channels});
  append_epilogue(
      shape, [&](const Dims& dims) { return row_operand(p, dims); }, false, m.post_ops);
  if (m.reason.empty()) m.reason = m.post_ops.reason;
  return m;
}

// The product of one tap; `first` starts the sum, `last` ends it.
TapProduct tap_product(const StepShape& shape, const Problem& p, bool first, bool last) {
  TapProduct m;
  const int axis = p.sliding_dim();
  if (!p.channels_last || axis < 0 || !p.unpadded || p.taps == 1) {
    m.reason = "the windows do not slide along one axis";
    return m;
  }
  const auto i = static_cast<size_t>(axis);
  const memory::dims strides{p.g.in[i] * p.channels, p.g.strides[i] * p.channels, 1};
  m.a = memory::desc({p.batch, p.positions, p.channels}, memory::data_type::f32, strides);
  m.b = any_desc(DType::FLOAT32, Dims{1, p.channels, p.out_channels});
  m.y = plain_desc(DType::FLOAT32, Dims{p.batch, p.positions, p.out_channels});
  if (!first) m.post_ops.ops.append_sum(1.0f);
  if (!last) return m;
  if (has_input(shape, 2)) m.bias = plain_desc(DType::FLOAT32, Dims{1, 1, p.out_channels});
  append_epilogue(
      shape, [&](const Dims& dims) { return batch_operand(p, dims); }, false, m.post_ops);
  m.reason = m.post_ops.reason;
  return m;
}

TapProduct channel_product(const StepShape& shape, const Problem& p) {
  TapProduct m;
  if (p.channels_last || !p.pointwise() || p.positions == 1) m.reason = "not a 1x1 convolution, channels first";
  m.a = plain_desc(DType::FLOAT32, Dims{1, p.out_channels, p.channels});
  m.b = plain_desc(DType::FLOAT32, Dims{p.batch, p.channels, p.positions});
  m.y = plain_desc(DType::FLOAT32, Dims{p.batch, p.out_channels, p.positions});
  const memory::desc bias = plain_desc(DType::FLOAT32, Dims{1, p.out_channels, 1});
  if (has_input(shape, 2)) m.post_ops.append_binary(dnnl::algorithm::binary_add, 2, bias, bias);
  append_epilogue(
      shape, [&](const Dims& dims) { return channel_operand(p, dims); }, false, m.post_ops);
  if (m.reason.empty()) m.reason = m.post_ops.reason;
  return m;
}

bool select(MatmulDesc& pd, const TapProduct& m, const std::string& impl) {
  return select_impl<MatmulDesc>(
      pd, [&] { return m.create(); }, impl);
}

std::unique_ptr<PrimitiveKernel> build_rows(const StepShape& shape, const Tactic& tactic, const Problem& p,
                                            const std::string& impl) {
  const TapProduct m = row_product(shape, p);
  MatmulDesc pd;
  if (!m.reason.empty() || !is_constant(shape, tactic, 1) || !select(pd, m, impl)) return nullptr;
  auto kernel = std::make_unique<PrimitiveKernel>();
  int src = kernel->input(0, m.a);
  if (!p.rows_lie()) {
    const int windows = kernel->temporary(m.a);
    kernel->add_function(WindowCopy(p.g, p.channels_last, p.batch, p.channels, shape.threads), src, windows);
    src = windows;
  }
  const bool taps_first = p.channels_last && p.taps > 1 && p.channels > 1;
  const memory::desc plain = matrix_desc(DType::FLOAT32, Dims{p.depth(), p.out_channels}, true);
  const int b =
      weights(*kernel, shape, tactic, 1, plain, pd.weights_desc(), taps_first ? kTapWeights : WeightsTransform{});
  ArgList args{{DNNL_ARG_SRC, src}, {DNNL_ARG_WEIGHTS, b}};
  if (!m.bias.is_zero()) args.emplace_back(DNNL_ARG_BIAS, kernel->input(2, m.bias));
  append_operands(*kernel, pd, m.post_ops, args);
  const bool direct = p.channels_last || p.positions == 1 || p.out_channels == 1;
  const int dst = direct ? kernel->output(0, m.y) : kernel->temporary(m.y);
  args.emplace_back(DNNL_ARG_DST, dst);
  kernel->add<dnnl::matmul>(pd, args);
  if (direct) return kernel;
  const Dims dims{p.batch, p.positions, p.out_channels};
  const int order[] = {0, 2, 1};
  kernel->copy(kernel->alias(dst, plain_desc(DType::FLOAT32, dims)),
               kernel->output(0, permuted_desc(DType::FLOAT32, dims, order)));
  return kernel;
}

std::unique_ptr<PrimitiveKernel> build_sum(const StepShape& shape, const Tactic& tactic, const Problem& p,
                                           const std::string& impl) {
  TapProduct m = tap_product(shape, p, true, false);
  MatmulDesc pd;
  if (!m.reason.empty() || !is_constant(shape, tactic, 1) || !select(pd, m, impl)) return nullptr;
  const memory::desc tap_weights = pd.weights_desc(), all_weights = repeated(tap_weights, p.taps);
  if (all_weights.is_zero()) return nullptr;
  auto kernel = std::make_unique<PrimitiveKernel>();
  const int order[] = {2, 1, 0};
  const memory::desc plain = permuted_desc(DType::FLOAT32, Dims{p.taps, p.channels, p.out_channels}, order);
  const int src = kernel->input(0, m.a), dst = kernel->output(0, m.y);
  const int b = weights(*kernel, shape, tactic, 1, plain, all_weights);
  const auto step = static_cast<size_t>(p.g.dilations[static_cast<size_t>(p.sliding_dim())] * p.channels);
  for (int64_t tap = 0; tap < p.taps; ++tap) {
    m = tap_product(shape, p, tap == 0, tap + 1 == p.taps);
    m.b = tap_weights;
    if (!m.reason.empty() || !select(pd, m, impl)) return nullptr;
    const auto t = static_cast<size_t>(tap);
    ArgList args{{DNNL_ARG_SRC, kernel->part(src, m.a, t * step * sizeof(float))},
                 {DNNL_ARG_WEIGHTS, kernel->part(b, tap_weights, t * tap_weights.get_size())}};
    if (!m.bias.is_zero()) args.emplace_back(DNNL_ARG_BIAS, kernel->input(2, m.bias));
    append_operands(*kernel, pd, m.post_ops, args);
    args.emplace_back(DNNL_ARG_DST, dst);
    kernel->add<dnnl::matmul>(pd, args);
  }
  return kernel;
}

std::unique_ptr<PrimitiveKernel> build_channels(const StepShape& shape, const Tactic& tactic, const Problem& p,
                                                const std::string& impl) {
  const TapProduct m = channel_product(shape, p);
  MatmulDesc pd;
  if (!m.reason.empty() || !select(pd, m, impl)) return nullptr;
  auto kernel = std::make_unique<PrimitiveKernel>();
  ArgList args{{DNNL_ARG_SRC, weights(*kernel, shape, tactic, 1, m.a, m.a)}, {DNNL_ARG_WEIGHTS, kernel->input(0, m.b)}};
  append_operands(*kernel, pd, m.post_ops, args);
  args.emplace_back(DNNL_ARG_DST, kernel->output(0, m.y));
  kernel->add<dnnl::matmul>(pd, args);
  return kernel;
}

// [A, B, taps] to [A, taps, B] in the bytes; the dims stay.
Tensor move_taps(const Tensor& from, int64_t middle, int64_t last) {
  Tensor to(from.dtype(), from.dims());
  const int64_t outer = from.count() / (middle * last);
  const auto* source = from.as<float>();
  auto* target = to.as<float>();
  for (int64_t a = 0; a < outer; ++a) {
    for (int64_t m = 0; m < middle; ++m) {
      for (int64_t l = 0; l < last; ++l) target[(a * last + l) * middle + m] = source[(a * middle + m) * last + l];
    }
  }
  return to;
}

int64_t taps_of(const Tensor& w) { return w.count() / (w.dims()[0] * w.dims()[1]); }

}  // namespace

const WeightsTransform kTapWeights = {"taps/", [](const Tensor& t) { return move_taps(t, t.dims()[1], taps_of(t)); },
                                      [](const Tensor& t) { return move_taps(t, taps_of(t), t.dims()[1]); }};

bool is_product_mode(const std::string& mode) { return mode.rfind("product", 0) == 0; }

void append_gemm_conv(const StepShape& shape, Variants& variants) {
  const Problem p = describe_problem(shape);
  if (!p.reason.empty()) return;
  if (constant_data(shape, 1) != nullptr) {
    const TapProduct rows = row_product(shape, p);
    if (rows.reason.empty()) append_impls(rows.create(), "product/", variants);
    const TapProduct last = tap_product(shape, p, false, true);
    if (last.reason.empty()) append_impls(last.create(), "product_sum/", variants);
  }
  const TapProduct channels = channel_product(shape, p);
  if (channels.reason.empty()) append_impls(channels.create(), "product_rows/", variants);
}

std::unique_ptr<PrimitiveKernel> make_gemm_conv(const StepShape& shape, const Tactic& tactic) {
  const Problem p = describe_problem(shape);
  if (!p.reason.empty()) return nullptr;
  const auto [mode, impl] = split_variant(tactic.variant);
  if (mode == "product_sum") return build_sum(shape, tactic, p, impl);
  if (mode == "product_rows") return build_channels(shape, tactic, p, impl);
  return build_rows(shape, tactic, p, impl);
}

}  // namespace deepjit::onednn
