#include "kernels/onednn/post_ops.h"

namespace deepjit::onednn {

using dnnl::algorithm;

std::optional<Eltwise> eltwise_of(const EpilogueOp& op) {
  const std::string& name = op.name;
  if (name == "Relu") return Eltwise{algorithm::eltwise_relu};
  if (name == "LeakyRelu") return Eltwise{algorithm::eltwise_relu, op.alpha};
  if (name == "Sigmoid") return Eltwise{algorithm::eltwise_logistic};
  if (name == "Tanh") return Eltwise{algorithm::eltwise_tanh};
  if (name == "Gelu") return Eltwise{algorithm::eltwise_gelu_erf};
  if (name == "GeluTanh") return Eltwise{algorithm::eltwise_gelu_tanh};
  if (name == "Exp") return Eltwise{algorithm::eltwise_exp};
  if (name == "Log") return Eltwise{algorithm::eltwise_log};
  if (name == "Abs") return Eltwise{algorithm::eltwise_abs};
  if (name == "Sqrt") return Eltwise{algorithm::eltwise_sqrt};
  if (name == "Clip") return Eltwise{algorithm::eltwise_clip, op.alpha, op.beta};
  if (name == "Elu") return Eltwise{algorithm::eltwise_elu, op.alpha};
  if (name == "HardSigmoid") return Eltwise{algorithm::eltwise_hardsigmoid, op.alpha, op.beta};
  if (name == "HardSwish") return Eltwise{algorithm::eltwise_hardswish, 1.0f / 6.0f, 0.5f};
  if (name == "Swish") return Eltwise{algorithm::eltwise_swish, op.alpha};
  if (name == "Softplus") return Eltwise{algorithm::eltwise_soft_relu, 1.0f};
  if (name == "Mish") return Eltwise{algorithm::eltwise_mish};
  if (name == "Round") return Eltwise{algorithm::eltwise_round};
  if (name == "Linear") return Eltwise{algorithm::eltwise_linear, op.alpha, op.beta};
  return std::nullopt;
}

algorithm binary_of(const std::string& name) {
  if (name == "Add") return algorithm::binary_add;
  if (name == "Sub") return algorithm::binary_sub;
  if (name == "Mul") return algorithm::binary_mul;
  if (name == "Div") return algorithm::binary_div;
  return algorithm::undef;
}

void PostOps::append_binary(algorithm algorithm, int input, const memory::desc& plain, const memory::desc& given) {
  operands.push_back(Operand{ops.len(), input, plain});
  ops.append_binary(algorithm, given);
}

void append_epilogue(const StepShape& shape, const std::function<memory::desc(const Dims&)>& describe_operand,
                     bool any_layout, PostOps& post_ops) {
  for (const EpilogueOp& op : epilogue_of(shape.step->attrs)) {
    if (op.operand < 0) {
      const std::optional<Eltwise> eltwise = eltwise_of(op);
      if (!eltwise) {
        post_ops.reason = "oneDNN has no post-op for " + op.name;
        return;
      }
      post_ops.append(*eltwise);
      continue;
    }
    const algorithm algorithm = binary_of(op.name);
    if (algorithm == algorithm::undef || !has_input(shape, op.operand) ||
        in(shape, op.operand).dtype != DType::FLOAT32) {
      post_ops.reason = "oneDNN has no post-op for " + to_string(op);
      return;
    }
    const Dims& dims = in(shape, op.operand).dims;
    const memory::desc plain = describe_operand(dims);
    if (plain.is_zero()) {
      post_ops.reason = "epilogue " + to_string(op) + ": the operand's shape does not fit oneDNN's view of the step";
      return;
    }
    const bool full = any_layout && dims.count() == out(shape, 0).count();
    const memory::desc any(plain.get_dims(), plain.get_data_type(), memory::format_tag::any);
    post_ops.append_binary(algorithm, op.operand, plain, full ? any : plain);
  }
}

}  // namespace deepjit::onednn
