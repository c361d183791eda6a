// MatMul, deepjit.MatMul and Gemm, on oneDNN matmul and inner product.
//
// Variants: "nd/IMPL" keeps the batch dims, "2d/IMPL" takes all leading dims of A as rows of one product (B has no
// batch dims), "ip/IMPL" is the same as an inner product.
#include <functional>

#include "kernels/onednn/families.h"
#include "kernels/onednn/post_ops.h"
#include "kernels/onednn/problems.h"

namespace deepjit::onednn {

namespace {

using MatmulDesc = dnnl::matmul::primitive_desc;
using InnerDesc = dnnl::inner_product_forward::primitive_desc;

enum class Mode { ND, COLLAPSED, INNER };

constexpr int kMaxRank = 12;  // oneDNN's

struct Problem {
  memory::desc a, b, bias, y;  // plain
  int bias_input = -1;
  PostOps post_ops;
  std::string reason;
};

Product step_product(const StepShape& shape) {
  const bool gemm = shape.step->op == "Gemm";
  const Attributes& attrs = shape.step->attrs;
  return product_of(in(shape, 0).dims, in(shape, 1).dims, attrs.get_int(gemm ? "transA" : "trans_a", 0) != 0,
                    attrs.get_int(gemm ? "transB" : "trans_b", 0) != 0);
}

float alpha_of(const Step& step) { return step.op == "Gemm" ? step.attrs.get_float("alpha", 1) : 1; }

// The desc of an operand that broadcasts against the step's result, or an empty one.
memory::desc operand_desc(const Product& p, Mode mode, Dims dims) {
  const int rank = p.y.rank();
  if (p.column) dims.push_back(1);
  if (p.row && dims.rank() > 0) dims.insert(dims.rank() - 1, 1);
  if (dims.rank() > rank) return memory::desc();
  pad_rank(dims, rank);
  if (mode == Mode::ND) return plain_desc(DType::FLOAT32, dims);
  const std::optional<Dims> flat = collapse(dims, p.y);
  return flat ? plain_desc(DType::FLOAT32, *flat) : memory::desc();
}

bool is_row_vector(const memory::desc& desc, const memory::desc& y) {
  const memory::dims dims = desc.get_dims();
  for (size_t i = 0; i + 1 < dims.size(); ++i) {
    if (dims[i] != 1) return false;
  }
  return dims.back() == y.get_dims().back();
}

// alpha, then C or the bias, as oneDNN's bias where it is one row and nothing stands before it.
void append_addend(const StepShape& shape, const Product& p, Mode mode, Problem& problem) {
  const float alpha = alpha_of(*shape.step);
  if (alpha != 1) problem.post_ops.append(Eltwise{dnnl::algorithm::eltwise_linear, alpha, 0});
  if (!has_input(shape, 2)) return;
  const float beta = shape.step->op == "Gemm" ? shape.step->attrs.get_float("beta", 1) : 1;
  if (beta == 0) return;
  const memory::desc plain = operand_desc(p, mode, in(shape, 2).dims);
  if (beta != 1 || plain.is_zero()) {
    problem.reason = "oneDNN has no form for this addend (beta other than 1, or a partial broadcast)";
  } else if (alpha == 1 && is_row_vector(plain, problem.y)) {
    problem.bias = mode == Mode::INNER ? plain_desc(DType::FLOAT32, Dims{plain.get_dims().back()}) : plain;
    problem.bias_input = 2;
  } else {
    problem.post_ops.append_binary(dnnl::algorithm::binary_add, 2, plain, plain);
  }
}

Problem describe_problem(const StepShape& shape, Mode mode) {
  Problem problem;
  const Product p = step_product(shape);
  const int rank = p.y.rank();
  if (rank > kMaxRank) problem.reason = "oneDNN takes at most 12 dims";
  if (mode == Mode::ND) {
    problem.a = matrix_desc(DType::FLOAT32, p.a, p.trans_a);
    problem.b = matrix_desc(DType::FLOAT32, p.b, p.trans_b);
    problem.y = plain_desc(DType::FLOAT32, p.y);
  } else {
    const std::optional<Dims> a = collapse(p.a, p.y);
    if (!p.single_b() || !a || (p.trans_a && rank > 2)) {
      problem.reason = "the product has batch dims";
      return problem;
    }
    const Dims b{p.b[rank - 2], p.b[rank - 1]};
    problem.a = matrix_desc(DType::FLOAT32, Dims{(*a)[0], p.a[rank - 1]}, p.trans_a);
    problem.y = plain_desc(DType::FLOAT32, *collapse(p.y, p.y));
    // Inner product names its weights [N, K].
    problem.b = mode == Mode::INNER ? matrix_desc(DType::FLOAT32, Dims{b[1], b[0]}, !p.trans_b)
                                    : matrix_desc(DType::FLOAT32, b, p.trans_b);
  }
  append_addend(shape, p, mode, problem);
  if (!problem.reason.empty()) return problem;
  append_epilogue(
      shape, [&](const Dims& dims) { return operand_desc(p, mode, dims); }, false, problem.post_ops);
  problem.reason = problem.post_ops.reason;
  return problem;
}

template <typename PrimitiveDesc>
PrimitiveDesc create(const Problem& p, bool free_weights) {
  dnnl::primitive_attr attr = base_attr();
  attr.set_post_ops(p.post_ops.ops);
  const memory::desc b =
      free_weights ? memory::desc(p.b.get_dims(), p.b.get_data_type(), memory::format_tag::any) : p.b;
  if constexpr (std::is_same_v<PrimitiveDesc, InnerDesc>) {
    const auto kind = dnnl::prop_kind::forward_inference;
    return !p.bias.is_zero() ? InnerDesc(engine(), kind, p.a, b, p.bias, p.y, attr, true)
                             : InnerDesc(engine(), kind, p.a, b, p.y, attr, true);
  } else {
    return !p.bias.is_zero() ? MatmulDesc(engine(), p.a, b, p.bias, p.y, attr, true)
                             : MatmulDesc(engine(), p.a, b, p.y, attr, true);
  }
}

template <typename PrimitiveDesc>
void append_mode(const StepShape& shape, Mode mode, const std::string& prefix, Variants& variants) {
  const Problem problem = describe_problem(shape, mode);
  if (!problem.reason.empty()) {
    variants.reason = problem.reason;
    return;
  }
  append_impls(create<PrimitiveDesc>(problem, constant_data(shape, 1) != nullptr), prefix, variants);
}

Variants matmul_variants(const StepShape& shape) {
  Variants variants;
  variants.reason = common_obstacle(shape, DType::FLOAT32);
  if (!variants.reason.empty()) return variants;
  append_mode<MatmulDesc>(shape, Mode::COLLAPSED, "2d/", variants);
  if (step_product(shape).y.rank() > 2) append_mode<MatmulDesc>(shape, Mode::ND, "nd/", variants);
  if (constant_data(shape, 1) != nullptr) append_mode<InnerDesc>(shape, Mode::INNER, "ip/", variants);
  if (variants.names.empty() && variants.reason.empty()) {
    variants.reason = "oneDNN has only its reference implementation for this product";
  }
  return variants;
}

template <typename Primitive, typename PrimitiveDesc>
std::unique_ptr<PrimitiveKernel> build(const StepShape& shape, const Tactic& tactic, Mode mode,
                                       const std::string& impl) {
  const Problem p = describe_problem(shape, mode);
  if (!p.reason.empty()) return nullptr;
  const bool free_weights = is_constant(shape, tactic, 1);
  PrimitiveDesc pd;
  const std::function<PrimitiveDesc()> make_desc = [&] { return create<PrimitiveDesc>(p, free_weights); };
  if (!select_impl<PrimitiveDesc>(pd, make_desc, impl)) return nullptr;
  auto kernel = std::make_unique<PrimitiveKernel>();
  ArgList args;
  args.emplace_back(DNNL_ARG_SRC, kernel->input(0, p.a));
  args.emplace_back(DNNL_ARG_WEIGHTS, weights(*kernel, shape, tactic, 1, p.b, pd.weights_desc()));
  if (!p.bias.is_zero()) args.emplace_back(DNNL_ARG_BIAS, kernel->input(p.bias_input, p.bias));
  append_operands(*kernel, pd, p.post_ops, args);
  args.emplace_back(DNNL_ARG_DST, kernel->output(0, p.y));
  kernel->add<Primitive>(pd, args);
  return kernel;
}

std::unique_ptr<PrimitiveKernel> make_matmul(const StepShape& shape, const Tactic& tactic) {
  const auto [mode, impl] = split_variant(tactic.variant);
  if (mode == "ip") return build<dnnl::inner_product_forward, InnerDesc>(shape, tactic, Mode::INNER, impl);
  return build<dnnl::matmul, MatmulDesc>(shape, tactic, mode == "2d" ? Mode::COLLAPSED : Mode::ND, impl);
}

}  // namespace

Family matmul_family() { return {{"MatMul", "deepjit.MatMul", "Gemm"}, matmul_variants, make_matmul}; }

}  // namespace deepjit::onednn
