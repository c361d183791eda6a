// Conv and ConvTranspose with their deepjit forms, on oneDNN convolution and deconvolution.
//
// Variants are "plain/IMPL" (activations stay in the step's layout) and "blocked/IMPL" (oneDNN chooses the layout
// and the kernel reorders on the way in and out); conv_gemm.h has more.
#include <functional>

#include "kernels/onednn/conv_gemm.h"
#include "kernels/onednn/post_ops.h"
#include "kernels/onednn/problems.h"

namespace deepjit::onednn {

namespace {

using ConvDesc = dnnl::convolution_forward::primitive_desc;
using DeconvDesc = dnnl::deconvolution_forward::primitive_desc;

struct Problem : ConvProblem {
  memory::desc bias;
  PostOps post_ops;
};

Problem describe_problem(const StepShape& shape, bool blocked) {
  Problem p{conv_problem(shape, 1, base_op(*shape.step) == "ConvTranspose"), {}, {}};
  if (!p.reason.empty()) return p;
  if (has_input(shape, 2)) p.bias = plain_desc(DType::FLOAT32, in(shape, 2).dims);
  append_epilogue(
      shape, [&](const Dims& dims) { return p.layout.operand(DType::FLOAT32, dims); }, blocked, p.post_ops);
  p.reason = p.post_ops.reason;
  return p;
}

// free_weights: the weights may be laid out anew.
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
    append_gemm_deconv(shape, variants);
  } else {
    append_variants<ConvDesc>(shape, variants);
    append_gemm_conv(shape, variants);
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
  const bool transposed = base_op(*shape.step) == "ConvTranspose";
  if (is_product_mode(split_variant(tactic.variant).first)) {
    return transposed ? make_gemm_deconv(shape, tactic) : make_gemm_conv(shape, tactic);
  }
  if (transposed) {
    return build<dnnl::deconvolution_forward, DeconvDesc>(shape, tactic);
  }
  return build<dnnl::convolution_forward, ConvDesc>(shape, tactic);
}

}  // namespace

Family conv_family() {
  return {{"Conv", "deepjit.Conv", "ConvTranspose", "deepjit.ConvTranspose"}, conv_variants, make_conv};
}

}  // namespace deepjit::onednn
