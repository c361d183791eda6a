// MatMulInteger and QLinearMatMul on oneDNN's int8 matmul. B is constant.
//
// "2d/IMPL" takes all leading dims of A as rows, "nd/IMPL" keeps the batch dims.
#include <algorithm>

#include "kernels/onednn/problems.h"
#include "kernels/onednn/quantization.h"

namespace deepjit::onednn {

namespace {

using MatmulDesc = dnnl::matmul::primitive_desc;

struct Problem {
  memory::desc a, b, y;
  IntegerWeights weights{};
  ZeroPoint a_zero, y_zero;
  std::vector<float> scales;  // empty for MatMulInteger
  std::string reason;
};

bool is_qlinear(const StepShape& shape) { return shape.step->op == "QLinearMatMul"; }

void describe_quantization(const StepShape& shape, const Tactic& tactic, Problem& p) {
  const bool qlinear = is_qlinear(shape);
  const int b = qlinear ? 3 : 1;
  const std::optional<IntegerWeights> w = integer_weights(shape, b, qlinear ? 5 : 3);
  if (!is_constant(shape, tactic, b) || !w) {
    p.reason = "B or its zero point is not constant, or the zero point differs between columns";
    return;
  }
  p.weights = *w;
  p.a_zero = zero_point(shape, 2);
  p.reason = p.a_zero.reason;
  if (!qlinear) return;
  p.y_zero = zero_point(shape, 7);
  const std::optional<std::vector<float>> scales = multipliers(shape, 1, 4, 6);
  if (!scales || !p.y_zero.reason.empty()) {
    p.reason = "the scales are computed at run time or vary by row";
  } else {
    p.scales = *scales;
  }
}

Problem describe_problem(const StepShape& shape, const Tactic& tactic, bool collapsed) {
  Problem p;
  describe_quantization(shape, tactic, p);
  if (!p.reason.empty()) return p;
  const Product product = product_of(in(shape, 0).dims, in(shape, p.weights.input).dims, false, false);
  Dims a = product.a, b = product.b, y = product.y;
  const int rank = y.rank();
  if (collapsed) {
    const std::optional<Dims> rows = collapse(a, y);
    if (!product.single_b() || !rows) {
      p.reason = "the product has batch dims";
      return p;
    }
    a = {(*rows)[0], a[rank - 1]};
    b = {b[rank - 2], b[rank - 1]};
    y = *collapse(y, y);
  }
  if (p.scales.size() > 1 && static_cast<int64_t>(p.scales.size()) != y.back()) p.reason = "one scale a batch";
  p.a = plain_desc(in(shape, 0).dtype, a);
  p.b = plain_desc(DType::INT8, b);
  p.y = plain_desc(out(shape, 0).dtype, y);
  return p;
}

MatmulDesc create(const Problem& p) {
  if (!p.reason.empty()) return {};
  dnnl::primitive_attr attr = base_attr();
  const int columns = 1 << (static_cast<int>(p.y.get_dims().size()) - 1);
  if (!p.scales.empty()) attr.set_scales_mask(DNNL_ARG_WEIGHTS, p.scales.size() > 1 ? columns : 0);
  if (!p.a_zero.zero) attr.set_zero_points_mask(DNNL_ARG_SRC, 0);
  if (!p.y_zero.zero) attr.set_zero_points_mask(DNNL_ARG_DST, 0);
  if (p.weights.zero_point != 0) attr.set_zero_points_mask(DNNL_ARG_WEIGHTS, 0);
  const memory::desc b(p.b.get_dims(), p.b.get_data_type(), memory::format_tag::any);
  return MatmulDesc(engine(), p.a, b, p.y, attr, true);
}

Variants integer_matmul_variants(const StepShape& shape) {
  Variants variants;
  const Problem flat = describe_problem(shape, Tactic(), true), full = describe_problem(shape, Tactic(), false);
  if (in(shape, 0).count() == 0 || out(shape, 0).count() == 0) {
    variants.reason = "an operand is empty";
    return variants;
  }
  append_impls(create(flat), "2d/", variants, is_exact_integer);
  if (flat.y != full.y) append_impls(create(full), "nd/", variants, is_exact_integer);
  if (!variants.names.empty()) return variants;
  variants.reason = !full.reason.empty() ? full.reason : "oneDNN has no exact implementation on this machine";
  return variants;
}

std::unique_ptr<PrimitiveKernel> make_integer_matmul(const StepShape& shape, const Tactic& tactic) {
  const auto [mode, impl] = split_variant(tactic.variant);
  const Problem p = describe_problem(shape, tactic, mode == "2d");
  MatmulDesc pd;
  const std::function<MatmulDesc()> make_desc = [&] { return create(p); };
  if (!p.reason.empty() || !select_impl<MatmulDesc>(pd, make_desc, impl, is_exact_integer)) return nullptr;
  auto kernel = std::make_unique<PrimitiveKernel>();
  const WeightsTransform transform = p.weights.flipped ? kFlippedWeights : WeightsTransform{};
  ArgList args{{DNNL_ARG_SRC, kernel->input(0, p.a)},
               {DNNL_ARG_WEIGHTS, weights(*kernel, shape, tactic, p.weights.input, p.b, pd.weights_desc(), transform)},
               {DNNL_ARG_DST, kernel->output(0, p.y)}};
  if (!p.scales.empty()) args.emplace_back(DNNL_ARG_ATTR_SCALES | DNNL_ARG_WEIGHTS, constant_floats(*kernel, p.scales));
  if (!p.a_zero.zero) {
    args.emplace_back(DNNL_ARG_ATTR_ZERO_POINTS | DNNL_ARG_SRC, zero_point_slot(*kernel, shape, p.a_zero));
  }
  if (!p.y_zero.zero) {
    args.emplace_back(DNNL_ARG_ATTR_ZERO_POINTS | DNNL_ARG_DST, zero_point_slot(*kernel, shape, p.y_zero));
  }
  if (p.weights.zero_point != 0) {
    args.emplace_back(DNNL_ARG_ATTR_ZERO_POINTS | DNNL_ARG_WEIGHTS, constant_ints(*kernel, {p.weights.zero_point}));
  }
  kernel->add<dnnl::matmul>(pd, args);
  return kernel;
}

}  // namespace

Family integer_matmul_family() {
  return {{"MatMulInteger", "QLinearMatMul"}, integer_matmul_variants, make_integer_matmul};
}

}  // namespace deepjit::onednn
