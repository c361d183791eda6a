// Softmax, LogSoftmax and LayerNormalization. Dims are merged to rows and columns first.
#include "kernels/onednn/families.h"

namespace deepjit::onednn {

namespace {

using SoftmaxDesc = dnnl::softmax_forward::primitive_desc;
using NormDesc = dnnl::layer_normalization_forward::primitive_desc;

int64_t product(const Dims& dims, int first, int last) {
  int64_t count = 1;
  for (int i = first; i < last; ++i) count *= dims[i];
  return count;
}

SoftmaxDesc create_softmax(const StepShape& shape) {
  const Dims& x = in(shape, 0).dims;
  if (x.rank() == 0) return {};
  const int axis = normalize_axis(shape.step->attrs.get_int("axis", -1), x.rank());
  Dims merged{product(x, 0, axis), x[axis]};
  if (product(x, axis + 1, x.rank()) > 1) merged.push_back(product(x, axis + 1, x.rank()));
  const memory::desc desc = plain_desc(DType::FLOAT32, merged);
  const bool is_log = base_op(*shape.step) == "LogSoftmax";
  const auto algorithm = is_log ? dnnl::algorithm::softmax_log : dnnl::algorithm::softmax_accurate;
  return SoftmaxDesc(engine(), dnnl::prop_kind::forward_inference, algorithm, desc, desc, 1, base_attr(), true);
}

bool is_softmax(const StepShape& shape) { return base_op(*shape.step) != "LayerNormalization"; }

// [rows, columns] of a layer normalization, or why oneDNN cannot run it.
Dims norm_dims(const StepShape& shape, std::string& reason) {
  const Dims& x = in(shape, 0).dims;
  if (wants_output(shape, 1) || wants_output(shape, 2)) reason = "the mean or the deviation is wanted";
  if (x.rank() == 0) reason = "a scalar";
  if (!reason.empty()) return {};
  const int axis = normalize_axis(shape.step->attrs.get_int("axis", -1), x.rank());
  const Dims merged{product(x, 0, axis), product(x, axis, x.rank())};
  const Dims tail(std::span<const int64_t>(x.begin() + axis, x.end()));
  for (int k : {1, 2}) {
    if (!has_input(shape, k)) continue;
    // Leading dims of 1 do not matter.
    const Dims& scale = in(shape, k).dims;
    if (scale.count() != merged[1] || scale.rank() < tail.rank() ||
        !std::equal(tail.begin(), tail.end(), scale.end() - tail.rank())) {
      reason = "the scale or bias is broadcast over the normalized dims";
    }
  }
  return merged;
}

NormDesc create_norm(const StepShape& shape, std::string& reason) {
  const Dims merged = norm_dims(shape, reason);
  if (!reason.empty()) return {};
  const memory::desc desc = plain_desc(DType::FLOAT32, merged);
  auto flags = dnnl::normalization_flags::none;
  if (has_input(shape, 1)) flags = flags | dnnl::normalization_flags::use_scale;
  if (has_input(shape, 2)) flags = flags | dnnl::normalization_flags::use_shift;
  const float epsilon = shape.step->attrs.get_float("epsilon", 1e-5f);
  return NormDesc(engine(), dnnl::prop_kind::forward_inference, desc, desc, epsilon, flags, base_attr(), true);
}

Variants norm_variants(const StepShape& shape) {
  Variants variants;
  variants.reason = common_obstacle(shape, DType::FLOAT32);
  if (!variants.reason.empty()) return variants;
  if (is_softmax(shape)) {
    append_impls(create_softmax(shape), "", variants);
  } else {
    append_impls(create_norm(shape, variants.reason), "", variants);
  }
  if (variants.names.empty() && variants.reason.empty()) {
    variants.reason = "oneDNN has only its reference implementation here";
  }
  return variants;
}

std::unique_ptr<PrimitiveKernel> make_softmax(const StepShape& shape, const Tactic& tactic) {
  SoftmaxDesc pd;
  const std::function<SoftmaxDesc()> make_desc = [&] { return create_softmax(shape); };
  if (!select_impl<SoftmaxDesc>(pd, make_desc, tactic.variant)) return nullptr;
  auto kernel = std::make_unique<PrimitiveKernel>();
  const int src = kernel->input(0, pd.src_desc()), dst = kernel->output(0, pd.dst_desc());
  kernel->add<dnnl::softmax_forward>(pd, {{DNNL_ARG_SRC, src}, {DNNL_ARG_DST, dst}});
  return kernel;
}

std::unique_ptr<PrimitiveKernel> make_norm(const StepShape& shape, const Tactic& tactic) {
  if (is_softmax(shape)) return make_softmax(shape, tactic);
  std::string reason;
  NormDesc pd;
  const std::function<NormDesc()> make_desc = [&] { return create_norm(shape, reason); };
  if (!select_impl<NormDesc>(pd, make_desc, tactic.variant)) return nullptr;
  auto kernel = std::make_unique<PrimitiveKernel>();
  ArgList args{{DNNL_ARG_SRC, kernel->input(0, pd.src_desc())}, {DNNL_ARG_DST, kernel->output(0, pd.dst_desc())}};
  const memory::desc row = plain_desc(DType::FLOAT32, Dims{pd.src_desc().get_dims().back()});
  if (has_input(shape, 1)) args.emplace_back(DNNL_ARG_SCALE, kernel->input(1, row));
  if (has_input(shape, 2)) args.emplace_back(DNNL_ARG_SHIFT, kernel->input(2, row));
  kernel->add<dnnl::layer_normalization_forward>(pd, args);
  return kernel;
}

}  // namespace

Family norm_family() { return {{"Softmax", "LogSoftmax", "LayerNormalization"}, norm_variants, make_norm}; }

}  // namespace deepjit::onednn
