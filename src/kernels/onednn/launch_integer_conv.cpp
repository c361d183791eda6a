// ConvInteger and QLinearConv on oneDNN's int8 convolution.
//
// oneDNN's int8 kernels want channels last: "blocked/IMPL" reorders on the way in and out, "plain/IMPL" is for steps
// whose layout is that already. The bias, in units of the sums, is scaled once to oneDNN's float bias.
#include <algorithm>

#include "kernels/onednn/problems.h"
#include "kernels/onednn/quantization.h"

namespace deepjit::onednn {

namespace {

using ConvDesc = dnnl::convolution_forward::primitive_desc;

struct Problem : ConvProblem {
  IntegerWeights quantized{};
  ZeroPoint x_zero, y_zero;
  std::vector<float> scales;  // empty for ConvInteger
  std::vector<float> bias;
};

std::vector<float> scaled_bias(const StepShape& shape, const std::vector<float>& scales) {
  std::vector<float> result;
  if (!has_input(shape, 8)) return result;
  const std::vector<double> bias = constant_data(shape, 8)->to_f64();
  for (size_t i = 0; i < bias.size(); ++i) {
    result.push_back(static_cast<float>(bias[i] * static_cast<double>(scales[scales.size() == 1 ? 0 : i])));
  }
  return result;
}

Problem describe_problem(const StepShape& shape, const Tactic& tactic) {
  const bool qlinear = shape.step->op == "QLinearConv";
  const int w = qlinear ? 3 : 1;
  Problem p{conv_problem(shape, w, false), {}, {}, {}, {}, {}};
  if (!p.reason.empty()) return p;
  const std::optional<IntegerWeights> quantized = integer_weights(shape, w, qlinear ? 5 : 3);
  if (!is_constant(shape, tactic, w) || !quantized || quantized->zero_point != 0) {
    p.reason = "the weights are not constant or not symmetric";
    return p;
  }
  p.quantized = *quantized;
  p.weights = memory::desc(p.weights.get_dims(), memory::data_type::s8, p.weights.get_strides());
  p.x_zero = zero_point(shape, 2);
  p.reason = p.x_zero.reason;
  if (!qlinear || !p.reason.empty()) return p;
  p.y_zero = zero_point(shape, 7);
  const std::optional<std::vector<float>> scales = multipliers(shape, 1, 4, 6);
  const bool constant_bias = !has_input(shape, 8) || constant_data(shape, 8) != nullptr;
  if (!scales || !constant_bias || !p.y_zero.reason.empty()) {
    p.reason = "the scales or the bias are computed at run time";
    return p;
  }
  p.scales = *scales;
  p.bias = scaled_bias(shape, p.scales);
  return p;
}

ConvDesc create(const Problem& p, bool blocked) {
  if (!p.reason.empty()) return {};
  dnnl::primitive_attr attr = base_attr();
  const int channels = p.group > 1 ? 3 : 1;
  if (!p.scales.empty()) attr.set_scales_mask(DNNL_ARG_WEIGHTS, p.scales.size() > 1 ? channels : 0);
  if (!p.x_zero.zero) attr.set_zero_points_mask(DNNL_ARG_SRC, 0);
  if (!p.y_zero.zero) attr.set_zero_points_mask(DNNL_ARG_DST, 0);
  const memory::desc src = blocked ? free_layout(p.src) : p.src, dst = blocked ? free_layout(p.dst) : p.dst;
  const memory::desc weights = free_layout(p.weights);
  const auto kind = dnnl::prop_kind::forward_inference;
  const auto direct = dnnl::algorithm::convolution_direct;
  if (p.bias.empty()) {
    return ConvDesc(engine(), kind, direct, src, weights, dst, p.strides, p.dilations, p.pads_begin, p.pads_end, attr,
                    true);
  }
  const memory::desc bias = plain_desc(DType::FLOAT32, Dims{static_cast<int64_t>(p.bias.size())});
  return ConvDesc(engine(), kind, direct, src, weights, bias, dst, p.strides, p.dilations, p.pads_begin, p.pads_end,
                  attr, true);
}

Variants integer_conv_variants(const StepShape& shape) {
  Variants variants;
  if (in(shape, 0).count() == 0 || out(shape, 0).count() == 0) {
    variants.reason = "an operand is empty";
    return variants;
  }
  const Problem p = describe_problem(shape, Tactic());
  append_impls(create(p, false), "plain/", variants, is_exact_integer);
  append_impls(create(p, true), "blocked/", variants, is_exact_integer);
  if (variants.names.empty()) {
    variants.reason = !p.reason.empty() ? p.reason : "oneDNN has no exact implementation on this machine";
  }
  return variants;
}

std::unique_ptr<PrimitiveKernel> make_integer_conv(const StepShape& shape, const Tactic& tactic) {
  const auto [mode, impl] = split_variant(tactic.variant);
  const Problem p = describe_problem(shape, tactic);
  ConvDesc pd;
  const std::function<ConvDesc()> make_desc = [&, blocked = mode == "blocked"] { return create(p, blocked); };
  if (!p.reason.empty() || !select_impl<ConvDesc>(pd, make_desc, impl, is_exact_integer)) return nullptr;
  auto kernel = std::make_unique<PrimitiveKernel>();
  const WeightsTransform transform = p.quantized.flipped ? kFlippedWeights : WeightsTransform{};
  const int w = weights(*kernel, shape, tactic, p.quantized.input, p.weights, pd.weights_desc(), transform);
  ArgList args{{DNNL_ARG_SRC, kernel->reordered(kernel->input(0, p.src), pd.src_desc())}, {DNNL_ARG_WEIGHTS, w}};
  if (!p.bias.empty()) args.emplace_back(DNNL_ARG_BIAS, constant_floats(*kernel, p.bias));
  if (!p.scales.empty()) args.emplace_back(DNNL_ARG_ATTR_SCALES | DNNL_ARG_WEIGHTS, constant_floats(*kernel, p.scales));
  if (!p.x_zero.zero) {
    args.emplace_back(DNNL_ARG_ATTR_ZERO_POINTS | DNNL_ARG_SRC, zero_point_slot(*kernel, shape, p.x_zero));
  }
  if (!p.y_zero.zero) {
    args.emplace_back(DNNL_ARG_ATTR_ZERO_POINTS | DNNL_ARG_DST, zero_point_slot(*kernel, shape, p.y_zero));
  }
  const int result = kernel->output(0, p.dst);
  const bool direct = pd.dst_desc() == p.dst;
  const int dst = direct ? result : kernel->temporary(pd.dst_desc());
  args.emplace_back(DNNL_ARG_DST, dst);
  kernel->add<dnnl::convolution_forward>(pd, args);
  if (!direct) kernel->copy(dst, result);
  return kernel;
}

}  // namespace

Family integer_conv_family() { return {{"ConvInteger", "QLinearConv"}, integer_conv_variants, make_integer_conv}; }

}  // namespace deepjit::onednn
