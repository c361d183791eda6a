// Pointwise ops of one input, and of two, on oneDNN eltwise and binary.
#include <functional>

#include "kernels/onednn/families.h"
#include "kernels/onednn/post_ops.h"

namespace deepjit::onednn {

namespace {

using EltwiseDesc = dnnl::eltwise_forward::primitive_desc;
using BinaryDesc = dnnl::binary::primitive_desc;

// The step as an epilogue op with its numbers, with ONNX's defaults; nothing when oneDNN computes something else.
std::optional<Eltwise> eltwise_of_step(const StepShape& shape) {
  const Attributes& attrs = shape.step->attrs;
  EpilogueOp op;
  op.name = base_op(*shape.step);
  if (op.name == "LeakyRelu") op.alpha = attrs.get_float("alpha", 0.01f);
  if (op.name == "Elu") op.alpha = attrs.get_float("alpha", 1.0f);
  if (op.name == "Swish") op.alpha = attrs.get_float("alpha", 1.0f);
  if (op.name == "HardSigmoid") {
    op.alpha = attrs.get_float("alpha", 0.2f);
    op.beta = attrs.get_float("beta", 0.5f);
  }
  if (op.name == "Gelu" && attrs.get_string("approximate", "none") == "tanh") op.name = "GeluTanh";
  return eltwise_of(op);
}

EltwiseDesc create_eltwise(const StepShape& shape) {
  const std::optional<Eltwise> e = eltwise_of_step(shape);
  if (!e) return {};
  const memory::desc flat = plain_desc(DType::FLOAT32, Dims{out(shape, 0).count()});
  return EltwiseDesc(engine(), dnnl::prop_kind::forward_inference, e->algorithm, flat, flat, e->alpha, e->beta,
                     base_attr(), true);
}

Variants eltwise_variants(const StepShape& shape) {
  Variants variants;
  variants.reason = common_obstacle(shape, DType::FLOAT32);
  if (!variants.reason.empty()) return variants;
  append_impls(create_eltwise(shape), "", variants);
  if (variants.names.empty()) variants.reason = "oneDNN has no optimised implementation of " + shape.step->op;
  return variants;
}

std::unique_ptr<PrimitiveKernel> make_eltwise(const StepShape& shape, const Tactic& tactic) {
  EltwiseDesc pd;
  const std::function<EltwiseDesc()> create = [&] { return create_eltwise(shape); };
  if (!select_impl<EltwiseDesc>(pd, create, tactic.variant)) return nullptr;
  auto kernel = std::make_unique<PrimitiveKernel>();
  const int src = kernel->input(0, pd.src_desc()), dst = kernel->output(0, pd.dst_desc());
  kernel->add<dnnl::eltwise_forward>(pd, {{DNNL_ARG_SRC, src}, {DNNL_ARG_DST, dst}});
  return kernel;
}

// Both operands and the result with merged dims: neighbours where each operand is broadcast alike become one, so
// that oneDNN sees the few patterns it knows.
struct BinaryProblem {
  Dims a, b, y;
  bool swapped = false;  // the full operand stands second
};

BinaryProblem merge_dims(Dims a, Dims b, const Dims& y) {
  while (a.rank() < y.rank()) a.insert(0, 1);
  while (b.rank() < y.rank()) b.insert(0, 1);
  BinaryProblem p;
  for (int i = 0; i < y.rank(); ++i) {
    if (y[i] == 1) continue;
    const int last = p.y.rank() - 1;
    const bool joins =
        last >= 0 && (p.a[last] == p.y[last]) == (a[i] == y[i]) && (p.b[last] == p.y[last]) == (b[i] == y[i]);
    if (joins) {
      p.a[last] *= a[i];
      p.b[last] *= b[i];
      p.y[last] *= y[i];
    } else {
      p.a.push_back(a[i]);
      p.b.push_back(b[i]);
      p.y.push_back(y[i]);
    }
  }
  if (p.y.empty()) p.a = p.b = p.y = Dims{1};
  return p;
}

std::optional<BinaryProblem> binary_problem(const StepShape& shape) {
  BinaryProblem p = merge_dims(in(shape, 0).dims, in(shape, 1).dims, out(shape, 0).dims);
  if (p.a == p.y) return p;
  // oneDNN broadcasts its second operand only.
  const std::string op = base_op(*shape.step);
  if (!(p.b == p.y) || (op != "Add" && op != "Mul")) return std::nullopt;
  std::swap(p.a, p.b);
  p.swapped = true;
  return p;
}

BinaryDesc create_binary(const StepShape& shape, const BinaryProblem& p) {
  return BinaryDesc(engine(), binary_of(base_op(*shape.step)), plain_desc(DType::FLOAT32, p.a),
                    plain_desc(DType::FLOAT32, p.b), plain_desc(DType::FLOAT32, p.y), base_attr(), true);
}

Variants binary_variants(const StepShape& shape) {
  Variants variants;
  variants.reason = common_obstacle(shape, DType::FLOAT32);
  if (!variants.reason.empty()) return variants;
  const std::optional<BinaryProblem> p = binary_problem(shape);
  if (!p) {
    variants.reason = "oneDNN broadcasts the second operand only";
    return variants;
  }
  append_impls(create_binary(shape, *p), "", variants);
  if (variants.names.empty()) variants.reason = "oneDNN has no optimised implementation of this broadcast";
  return variants;
}

std::unique_ptr<PrimitiveKernel> make_binary(const StepShape& shape, const Tactic& tactic) {
  const std::optional<BinaryProblem> p = binary_problem(shape);
  if (!p) return nullptr;
  BinaryDesc pd;
  const std::function<BinaryDesc()> create = [&] { return create_binary(shape, *p); };
  if (!select_impl<BinaryDesc>(pd, create, tactic.variant)) return nullptr;
  auto kernel = std::make_unique<PrimitiveKernel>();
  const int a = kernel->input(p->swapped ? 1 : 0, pd.src0_desc());
  const int b = kernel->input(p->swapped ? 0 : 1, pd.src1_desc());
  const int dst = kernel->output(0, pd.dst_desc());
  kernel->add<dnnl::binary>(pd, {{DNNL_ARG_SRC_0, a}, {DNNL_ARG_SRC_1, b}, {DNNL_ARG_DST, dst}});
  return kernel;
}

}  // namespace

// Missing on purpose: Relu, Clip, HardSigmoid, Exp, Min and Max, where oneDNN's lose a NaN; Log near 1, and Elu,
// Softplus and Mish below 0, where oneDNN's lose the relative accuracy that the reference keeps.
Family eltwise_family() {
  return {{"Sigmoid", "Tanh", "Sqrt", "Abs", "HardSwish", "LeakyRelu", "Gelu", "Swish", "Round"},
          eltwise_variants,
          make_eltwise};
}

Family binary_family() { return {{"Add", "Sub", "Mul", "Div"}, binary_variants, make_binary}; }

}  // namespace deepjit::onednn
