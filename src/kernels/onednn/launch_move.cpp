// Transpose and Concat: copies that oneDNN vectorises and spreads over threads.
#include "kernels/onednn/families.h"

namespace deepjit::onednn {

namespace {

using ReorderDesc = dnnl::reorder::primitive_desc;
using ConcatDesc = dnnl::concat::primitive_desc;

bool is_transpose(const StepShape& shape) { return shape.step->op == "Transpose"; }

std::string obstacle(const StepShape& shape) {
  if (to_data_type(in(shape, 0).dtype) == memory::data_type::undef) {
    return "oneDNN does not move " + std::string(dtype_name(in(shape, 0).dtype));
  }
  const std::string common = common_obstacle(shape, in(shape, 0).dtype);
  if (!common.empty()) return common;
  return in(shape, 0).dims.rank() > 12 || in(shape, 0).dims.rank() == 0 ? "oneDNN takes 1 to 12 dims" : "";
}

// Both sides in the input's logical dims.
std::pair<memory::desc, memory::desc> transpose_descs(const StepShape& shape) {
  const TensorDesc& x = in(shape, 0);
  const std::vector<int64_t> perm = shape.step->attrs.get_ints("perm");
  std::vector<int> order;
  for (int i = 0; i < x.dims.rank(); ++i) {
    order.push_back(perm.empty() ? x.dims.rank() - 1 - i : static_cast<int>(perm[static_cast<size_t>(i)]));
  }
  return {plain_desc(x.dtype, x.dims), permuted_desc(x.dtype, x.dims, order)};
}

struct ConcatProblem {
  std::vector<memory::desc> sources;
  memory::desc result;
};

ConcatProblem concat_problem(const StepShape& shape) {
  ConcatProblem p;
  const TensorDesc& y = out(shape, 0);
  const int axis = normalize_axis(shape.step->attrs.get_int("axis", 0), y.dims.rank());
  const auto merge = [&](const TensorDesc& desc) {
    Dims merged{1, desc.dims[axis], 1};
    for (int i = 0; i < axis; ++i) merged[0] *= desc.dims[i];
    for (int i = axis + 1; i < desc.dims.rank(); ++i) merged[2] *= desc.dims[i];
    return plain_desc(desc.dtype, merged);
  };
  for (const TensorDesc& desc : shape.inputs) p.sources.push_back(merge(desc));
  p.result = merge(y);
  return p;
}

Variants move_variants(const StepShape& shape) {
  Variants variants;
  variants.reason = obstacle(shape);
  if (!variants.reason.empty()) return variants;
  std::string impl;
  if (is_transpose(shape)) {
    const auto [from, to] = transpose_descs(shape);
    impl = ReorderDesc(engine(), from, engine(), to, base_attr()).impl_info_str();
  } else {
    const ConcatProblem p = concat_problem(shape);
    impl = ConcatDesc(engine(), p.result, 1, p.sources, base_attr()).impl_info_str();
  }
  if (!is_optimised(impl)) {
    variants.reason = "oneDNN has only its reference implementation for this copy";
  } else {
    variants.names.push_back(impl);
  }
  return variants;
}

std::unique_ptr<PrimitiveKernel> make_move(const StepShape& shape, const Tactic& tactic) {
  auto kernel = std::make_unique<PrimitiveKernel>();
  if (is_transpose(shape)) {
    const auto [from, to] = transpose_descs(shape);
    kernel->copy(kernel->input(0, from), kernel->output(0, to));
    return kernel;
  }
  for (const TensorDesc& desc : shape.inputs) {
    if (desc.count() == 0) return nullptr;
  }
  const ConcatProblem p = concat_problem(shape);
  const ConcatDesc pd(engine(), p.result, 1, p.sources, base_attr());
  ArgList args{{DNNL_ARG_DST, kernel->output(0, p.result)}};
  for (size_t i = 0; i < p.sources.size(); ++i) {
    const int k = static_cast<int>(i);
    args.emplace_back(DNNL_ARG_MULTIPLE_SRC + k, kernel->input(k, p.sources[i]));
  }
  kernel->add<dnnl::concat>(pd, args);
  return kernel;
}

}  // namespace

Family move_family() { return {{"Transpose", "Concat"}, move_variants, make_move}; }

}  // namespace deepjit::onednn
