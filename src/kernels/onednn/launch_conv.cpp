// Conv and ConvTranspose with their deepjit forms, on oneDNN convolution and deconvolution.
//
// Variants are "plain/IMPL" (activations stay in the step's layout) and "blocked/IMPL" (oneDNN chooses the layout
// and the kernel reorders on the way in and out).
#include <functional>

#include "kernels/onednn/families.h"
#include "kernels/onednn/layout.h"
#include "kernels/onednn/post_ops.h"
#include "ops/conv_shape.h"

namespace deepjit::onednn {

namespace {

using ConvDesc = dnnl::convolution_forward::primitive_desc;
using DeconvDesc = dnnl::deconvolution_forward::primitive_desc;

// The step in oneDNN's terms.
struct Problem {
  ActivationLayout layout;
  memory::desc src, weights, bias, dst;  // plain
  memory::dims strides, dilations, pads_begin, pads_end;
  PostOps post_ops;
  std::string reason;
};

// Logical dims and layout of the plain weights. ConvTranspose stores input channels before output channels.
memory::desc weights_desc(const Dims& w, int64_t group, bool transposed) {
  std::vector<int64_t> dims;
  std::vector<int> order;
  const int first = group > 1 ? 1 : 0;
  if (group > 1) {
    dims.push_back(group);
    order.push_back(0);
  }
  const int64_t rows = group > 1 ? w[0] / group : w[0];
  dims.push_back(transposed ? w[1] : rows);
  dims.push_back(transposed ? rows : w[1]);
  order.push_back(transposed ? first + 1 : first);
  order.push_back(transposed ? first : first + 1);
  for (int i = 2; i < w.rank(); ++i) {
    dims.push_back(w[i]);
    order.push_back(first + i);
  }
  return permuted_desc(DType::FLOAT32, dims, order);
}

Problem describe_problem(const StepShape& shape, bool blocked) {
  Problem p;
  const bool transposed = base_op(*shape.step) == "ConvTranspose";
  const Dims &x = in(shape, 0).dims, &w = in(shape, 1).dims, &y = out(shape, 0).dims;
  const Attributes& attrs = shape.step->attrs;
  if (x.rank() < 3 || x.rank() > 5) {
    p.reason = "oneDNN convolves 1 to 3 spatial dims";
    return p;
  }
  p.layout = {x.rank(), is_channels_last(attrs)};
  const std::vector<int64_t> image = spatial_dims(p.layout.channels_last, to_vector(x));
  const std::vector<int64_t> kernel(w.begin() + 2, w.end());
  const ConvGeometry g =
      transposed ? conv_transpose_geometry(attrs, image, kernel) : conv_geometry(attrs, image, kernel);
  p.src = p.layout.desc(DType::FLOAT32, x);
  p.dst = p.layout.desc(DType::FLOAT32, y);
  p.weights = weights_desc(w, g.group, transposed);
  if (has_input(shape, 2)) p.bias = plain_desc(DType::FLOAT32, in(shape, 2).dims);
  for (size_t i = 0; i < kernel.size(); ++i) {
    p.strides.push_back(g.strides[i]);
    p.dilations.push_back(g.dilations[i] - 1);
    // oneDNN derives the size from the pads; output padding is a smaller pad at the end.
    const int64_t image_side = transposed ? g.out[i] : g.in[i], window_side = transposed ? g.in[i] : g.out[i];
    p.pads_begin.push_back(g.pads_begin[i]);
    p.pads_end.push_back((window_side - 1) * g.strides[i] + g.extent(i) - image_side - g.pads_begin[i]);
  }
  append_epilogue(
      shape, [&](const Dims& dims) { return p.layout.operand(DType::FLOAT32, dims); }, blocked, p.post_ops);
  p.reason = p.post_ops.reason;
  return p;
}

memory::desc free_layout(const memory::desc& desc) {
  return memory::desc(desc.get_dims(), desc.get_data_type(), memory::format_tag::any);
}

// How many of the step's weights are free to be repacked decides between `any` and plain weights.
template <typename PrimitiveDesc>
PrimitiveDesc create(const Problem& p, bool blocked, bool free_weights) {
  constexpr bool kDeconv = std::is_same_v<PrimitiveDesc, DeconvDesc>;
  const auto algorithm = kDeconv ? dnnl::algorithm::deconvolution_direct : dnnl::algorithm::convolution_direct;
  dnnl::primitive_attr attr = base_attr();
  attr.set_post_ops(p.post_ops.ops);
  const memory::desc src = blocked ? free_layout(p.src) : p.src, dst = blocked ? free_layout(p.dst) : p.dst;
  const memory::desc weights = free_weights ? free_layout(p.weights) : p.weights;
  const auto kind = dnnl::prop_kind::forward_inference;
  if (!p.bias.is_zero()) {
    return PrimitiveDesc(engine(), kind, algorithm, src, weights, p.bias, dst, p.strides, p.dilations, p.pads_begin,
                         p.pads_end, attr, true);
  }
  return PrimitiveDesc(engine(), kind, algorithm, src, weights, dst, p.strides, p.dilations, p.pads_begin, p.pads_end,
                       attr, true);
}

template <typename PrimitiveDesc>
void append_variants(const StepShape& shape, Variants& variants) {
  const bool free_weights = constant_data(shape, 1) != nullptr;
  const Problem plain = describe_problem(shape, false);
  variants.reason = plain.reason;
  if (!plain.reason.empty()) return;
  append_impls(create<PrimitiveDesc>(plain, false, free_weights), "plain/", variants);
  const PrimitiveDesc blocked = create<PrimitiveDesc>(describe_problem(shape, true), true, free_weights);
  if (blocked && !(blocked.src_desc() == plain.src && blocked.dst_desc() == plain.dst)) {
    append_impls(blocked, "blocked/", variants);
  }
  if (variants.names.empty()) variants.reason = "oneDNN has only its reference implementation for this convolution";
}

Variants conv_variants(const StepShape& shape) {
  Variants variants;
  variants.reason = common_obstacle(shape, DType::FLOAT32);
  if (!variants.reason.empty()) return variants;
  if (base_op(*shape.step) == "ConvTranspose") {
    append_variants<DeconvDesc>(shape, variants);
  } else {
    append_variants<ConvDesc>(shape, variants);
  }
  return variants;
}

template <typename Primitive, typename PrimitiveDesc>
std::unique_ptr<PrimitiveKernel> build(const StepShape& shape, const Tactic& tactic) {
  const auto [mode, impl] = split_variant(tactic.variant);
  const bool blocked = mode == "blocked";
  const Problem p = describe_problem(shape, blocked);
  if (!p.reason.empty()) return nullptr;
  const bool free_weights = is_constant(shape, tactic, 1);
  PrimitiveDesc pd;
  const std::function<PrimitiveDesc()> make_desc = [&] { return create<PrimitiveDesc>(p, blocked, free_weights); };
  if (!select_impl<PrimitiveDesc>(pd, make_desc, impl)) return nullptr;
  auto kernel = std::make_unique<PrimitiveKernel>();
  ArgList args;
  args.emplace_back(DNNL_ARG_SRC, kernel->reordered(kernel->input(0, p.src), pd.src_desc()));
  args.emplace_back(DNNL_ARG_WEIGHTS, weights(*kernel, shape, tactic, 1, p.weights, pd.weights_desc()));
  if (!p.bias.is_zero()) args.emplace_back(DNNL_ARG_BIAS, kernel->input(2, p.bias));
  append_operands(*kernel, pd, p.post_ops, args);
  const int result = kernel->output(0, p.dst);
  const bool direct = pd.dst_desc() == p.dst;
  const int dst = direct ? result : kernel->temporary(pd.dst_desc());
  args.emplace_back(DNNL_ARG_DST, dst);
  kernel->add<Primitive>(pd, args);
  if (!direct) kernel->copy(dst, result);
  return kernel;
}

std::unique_ptr<PrimitiveKernel> make_conv(const StepShape& shape, const Tactic& tactic) {
  if (base_op(*shape.step) == "ConvTranspose") {
    return build<dnnl::deconvolution_forward, DeconvDesc>(shape, tactic);
  }
  return build<dnnl::convolution_forward, ConvDesc>(shape, tactic);
}

}  // namespace

Family conv_family() {
  return {{"Conv", "deepjit.Conv", "ConvTranspose", "deepjit.ConvTranspose"}, conv_variants, make_conv};
}

}  // namespace deepjit::onednn
