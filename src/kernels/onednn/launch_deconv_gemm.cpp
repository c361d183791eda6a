// ConvTranspose whose windows do not overlap (kernel = strides, no padding): a product, then the rows' taps are put
// into the image. One or two spatial dims.
#include "kernels/onednn/conv_gemm.h"
#include "kernels/onednn/post_ops.h"
#include "kernels/onednn/problems.h"
#include "kernels/onednn/windows.h"

namespace deepjit::onednn {

namespace {

using MatmulDesc = dnnl::matmul::primitive_desc;

constexpr int64_t kShortRun = 16;  // floats; oneDNN's copy is no faster below
constexpr int64_t kVector = 16;    // floats

struct Problem {
  bool channels_last = false;
  int64_t batch = 0, channels = 0, out_channels = 0;
  int64_t height = 1, width = 1, kernel_height = 1, kernel_width = 1;
  memory::desc a, b, y;  // [rows, channels] x [channels, columns], or the transposed product for channels first
  Tensor bias;           // one value a column; undefined without bias and where one value serves all
  PostOps post_ops;
  std::vector<Eltwise> after;  // the epilogue, where it runs on the image instead
  std::string reason;

  int64_t taps() const { return kernel_height * kernel_width; }
  int64_t positions() const { return height * width; }
  int64_t columns() const { return taps() * out_channels; }
  bool taps_first() const { return channels_last && taps() > 1 && out_channels > 1; }
};

void describe_windows(const StepShape& shape, Problem& p) {
  const Dims &x = in(shape, 0).dims, &w = in(shape, 1).dims;
  if (x.rank() < 3 || x.rank() > 4) {
    p.reason = "one or two spatial dims";
    return;
  }
  p.channels_last = is_channels_last(shape.step->attrs);
  const std::vector<int64_t> kernel = spatial_dims(false, to_vector(w));
  const ConvGeometry g =
      conv_transpose_geometry(shape.step->attrs, spatial_dims(p.channels_last, to_vector(x)), kernel);
  if (g.group != 1) p.reason = "groups";
  for (size_t i = 0; i < kernel.size(); ++i) {
    if (g.strides[i] != kernel[i] || g.pads_begin[i] != 0 || g.dilations[i] != 1 || g.out[i] != g.in[i] * kernel[i]) {
      p.reason = "the windows overlap or leave gaps";
    }
  }
  p.batch = x[0];
  p.channels = w[0];
  p.out_channels = w[1];
  p.width = g.in.back();
  p.kernel_width = kernel.back();
  if (kernel.size() == 2) {
    p.height = g.in[0];
    p.kernel_height = kernel[0];
  }
}

// A row shorter than a vector wastes most lanes of costly functions: those run on the image.
bool take_epilogue_apart(const StepShape& shape, Problem& p) {
  if (!p.channels_last || p.columns() >= kVector) return false;
  for (const EpilogueOp& op : epilogue_of(shape.step->attrs)) {
    const std::optional<Eltwise> eltwise = op.operand < 0 ? eltwise_of(op) : std::nullopt;
    if (!eltwise) {
      p.after.clear();
      return false;
    }
    p.after.push_back(*eltwise);
  }
  return true;
}

// The bias for every column (tap, channel) or (channel, tap).
Tensor spread_bias(const Problem& p, const Tensor& bias) {
  Tensor spread(DType::FLOAT32, Dims{p.columns()});
  for (int64_t i = 0; i < p.columns(); ++i) {
    spread.as<float>()[i] = bias.as<float>()[p.channels_last ? i % p.out_channels : i / p.taps()];
  }
  return spread;
}

Problem describe_problem(const StepShape& shape) {
  Problem p;
  describe_windows(shape, p);
  if (!p.reason.empty()) return p;
  const memory::desc one = plain_desc(DType::FLOAT32, p.channels_last ? Dims{1, 1} : Dims{1, 1, 1});
  if (p.channels_last) {
    p.a = plain_desc(DType::FLOAT32, Dims{p.batch * p.positions(), p.channels});
    p.b = any_desc(DType::FLOAT32, Dims{p.channels, p.columns()});
    p.y = plain_desc(DType::FLOAT32, Dims{p.batch * p.positions(), p.columns()});
  } else {
    p.a = matrix_desc(DType::FLOAT32, Dims{1, p.columns(), p.channels}, true);
    p.b = plain_desc(DType::FLOAT32, Dims{p.batch, p.channels, p.positions()});
    p.y = plain_desc(DType::FLOAT32, Dims{p.batch, p.columns(), p.positions()});
  }
  if (has_input(shape, 2)) {
    const Tensor* bias = constant_data(shape, 2);
    if (p.out_channels == 1) {
      p.post_ops.append_binary(dnnl::algorithm::binary_add, 2, one, one);
    } else if (bias == nullptr) {
      p.reason = "the bias is not constant";
      return p;
    } else {
      p.bias = spread_bias(p, *bias);
      const Dims dims = p.channels_last ? Dims{1, p.columns()} : Dims{1, p.columns(), 1};
      p.post_ops.append_binary(dnnl::algorithm::binary_add, -1, plain_desc(DType::FLOAT32, dims),
                               plain_desc(DType::FLOAT32, dims));
    }
  }
  if (take_epilogue_apart(shape, p)) return p;
  append_epilogue(
      shape, [&](const Dims& dims) { return dims.count() == 1 ? one : memory::desc(); }, false, p.post_ops);
  p.reason = p.post_ops.reason;
  return p;
}

MatmulDesc create(const Problem& p) {
  dnnl::primitive_attr attr = base_attr();
  attr.set_post_ops(p.post_ops.ops);
  return MatmulDesc(engine(), p.a, p.b, p.y, attr, true);
}

void append_arguments(PrimitiveKernel& kernel, const Problem& p, ArgList& args) {
  for (const PostOps::Operand& operand : p.post_ops.operands) {
    const int slot =
        operand.input < 0 ? kernel.constant(operand.plain, p.bias) : kernel.input(operand.input, operand.plain);
    args.emplace_back(DNNL_ARG_ATTR_MULTIPLE_POST_OP(operand.index) | DNNL_ARG_SRC_1, slot);
  }
}

// From the product to the image.
void add_scatter(PrimitiveKernel& kernel, const StepShape& shape, const Problem& p, int from) {
  if (!p.channels_last) {
    // [N * OC, KH, KW, H, W] to [N * OC, H, KH, W, KW]
    const Dims dims{p.batch * p.out_channels, p.kernel_height, p.kernel_width, p.height, p.width};
    const int order[] = {0, 3, 1, 4, 2};
    kernel.copy(kernel.alias(from, plain_desc(DType::FLOAT32, dims)),
                kernel.output(0, permuted_desc(DType::FLOAT32, dims, order)));
    return;
  }
  // [N * H, W, KH, KW * OC] to [N * H, KH, W, KW * OC]
  const int64_t run = p.kernel_width * p.out_channels;
  const Dims dims{p.batch * p.height, p.width, p.kernel_height, run};
  if (run < kShortRun) {
    const RunShuffle shuffle{dims[0], dims[1], dims[2], run, shape.threads};
    kernel.add_function(shuffle, from, kernel.output(0, plain_desc(DType::FLOAT32, dims)));
    return;
  }
  const int order[] = {0, 2, 1, 3};
  kernel.copy(kernel.alias(from, plain_desc(DType::FLOAT32, dims)),
              kernel.output(0, permuted_desc(DType::FLOAT32, dims, order)));
}

void add_after(PrimitiveKernel& kernel, const StepShape& shape, const Problem& p) {
  if (p.after.empty()) return;
  const memory::desc flat = plain_desc(DType::FLOAT32, Dims{out(shape, 0).dims.count()});
  const int image = kernel.output(0, flat);
  for (const Eltwise& e : p.after) {
    const dnnl::eltwise_forward::primitive_desc pd(engine(), dnnl::prop_kind::forward_inference, e.algorithm, flat,
                                                   flat, e.alpha, e.beta, base_attr());
    kernel.add<dnnl::eltwise_forward>(pd, {{DNNL_ARG_SRC, image}, {DNNL_ARG_DST, image}});
  }
}

}  // namespace

void append_gemm_deconv(const StepShape& shape, Variants& variants) {
  if (constant_data(shape, 1) == nullptr) return;
  const Problem p = describe_problem(shape);
  if (p.reason.empty()) append_impls(create(p), "product/", variants);
}

std::unique_ptr<PrimitiveKernel> make_gemm_deconv(const StepShape& shape, const Tactic& tactic) {
  const Problem p = describe_problem(shape);
  if (!p.reason.empty() || !is_constant(shape, tactic, 1)) return nullptr;
  MatmulDesc pd;
  const std::function<MatmulDesc()> make_desc = [&] { return create(p); };
  if (!select_impl<MatmulDesc>(pd, make_desc, split_variant(tactic.variant).second)) return nullptr;
  auto kernel = std::make_unique<PrimitiveKernel>();
  const int image = kernel->input(0, p.channels_last ? p.a : p.b);
  const memory::desc plain = p.channels_last ? plain_desc(DType::FLOAT32, Dims{p.channels, p.columns()}) : p.a;
  const int w = weights(*kernel, shape, tactic, 1, plain, p.channels_last ? pd.weights_desc() : p.a,
                        p.taps_first() ? kTapWeights : WeightsTransform{});
  ArgList args{{DNNL_ARG_SRC, p.channels_last ? image : w}, {DNNL_ARG_WEIGHTS, p.channels_last ? w : image}};
  append_arguments(*kernel, p, args);
  const bool direct = p.channels_last ? p.kernel_height == 1 : p.taps() == 1;
  const int dst = direct ? kernel->output(0, p.y) : kernel->temporary(p.y);
  args.emplace_back(DNNL_ARG_DST, dst);
  kernel->add<dnnl::matmul>(pd, args);
  if (!direct) add_scatter(*kernel, shape, p, dst);
  add_after(*kernel, shape, p);
  return kernel;
}

}  // namespace deepjit::onednn
