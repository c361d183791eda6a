#include <optional>

#include "kernels/cudnn/graph_builder.h"
#include "program/tf32.h"

namespace deepjit::cudnn {

namespace {

// An op without an operand as cuDNN has it in one operation, or nothing.
std::optional<PointwiseSpec> activation_of(const EpilogueOp& op) {
  PointwiseSpec spec;
  if (op.name == "Relu") spec.mode = Mode::RELU;
  if (op.name == "Clip") spec = {Mode::RELU, -1, -1, -1, op.alpha, op.beta};
  if (op.name == "LeakyRelu") spec = {Mode::RELU, -1, -1, -1, 0, spec.upper, op.alpha};
  if (op.name == "Sigmoid") spec.mode = Mode::SIGMOID;
  if (op.name == "Tanh") spec.mode = Mode::TANH;
  if (op.name == "Gelu") spec.mode = Mode::GELU;
  if (op.name == "GeluTanh") spec.mode = Mode::GELU_TANH;
  if (op.name == "Softplus") spec.mode = Mode::SOFTPLUS;
  if (op.name == "Exp") spec.mode = Mode::EXP;
  if (op.name == "Abs") spec.mode = Mode::ABS;
  if (op.name == "Sqrt") spec.mode = Mode::SQRT;
  if (op.name == "Elu") spec.mode = Mode::ELU;
  if (op.name == "Swish") spec.mode = Mode::SWISH;
  if (op.name == "Elu" || op.name == "Swish") spec.factor = op.alpha;
  if (spec.mode == Mode::ADD) return std::nullopt;
  return spec;
}

std::optional<Mode> binary_of(const std::string& name) {
  if (name == "Add") return Mode::ADD;
  if (name == "Mul") return Mode::MUL;
  if (name == "Sub") return Mode::SUB;
  if (name == "Div") return Mode::DIV;
  return std::nullopt;
}

}  // namespace

bool is_handled(DType dtype) { return dtype == DType::FLOAT32 || dtype == DType::FLOAT16 || dtype == DType::BFLOAT16; }

Graph GraphBuilder::build() {
  g_.reason = obstacle();
  if (!g_.reason.empty()) return g_;
  g_.tf32 = shape_.outputs[0].dtype == DType::FLOAT32 && shape_.program != nullptr &&
            may_use_tf32(*shape_.program, *shape_.step);
  set_operation();
  if (g_.reason.empty()) add_epilogue();
  return g_;
}

std::string GraphBuilder::obstacle() const {
  if (!has_input(0) || !has_input(1) || shape_.outputs.empty()) return "an operand is missing";
  const DType dtype = shape_.outputs[0].dtype;
  if (in(0).dtype != dtype || in(1).dtype != dtype) return "operands of several element types";
  for (const TensorDesc& desc : shape_.inputs) {
    if (desc.dtype == DType::UNDEFINED) continue;
    if (!is_handled(desc.dtype)) return "element type " + std::string(dtype_name(desc.dtype)) + " is not handled";
    if (desc.count() == 0) return "an operand is empty";
  }
  return shape_.outputs[0].count() == 0 ? "an operand is empty" : "";
}

int GraphBuilder::add_tensor(TensorSpec::Kind kind, DType dtype, const Ints& dims, const Ints& strides, int input) {
  g_.tensors.push_back({kind, dtype, dims, strides, input});
  return static_cast<int>(g_.tensors.size()) - 1;
}

int GraphBuilder::add_scalar(float value) {
  const Ints ones(result_.size(), 1);
  const int tensor = add_tensor(TensorSpec::Kind::SCALAR, DType::FLOAT32, ones, ones);
  g_.tensors.back().value = value;
  return tensor;
}

void GraphBuilder::append(PointwiseSpec spec, int b) {
  spec.x = value_;
  spec.b = b;
  spec.y = value_ = add_virtual();
  g_.pointwise.push_back(spec);
}

void GraphBuilder::append_linear(float factor, float addend) {
  if (factor != 1) append({Mode::MUL}, add_scalar(factor));
  if (addend != 0) append({Mode::ADD}, add_scalar(addend));
}

void GraphBuilder::append_op(const EpilogueOp& op) {
  if (op.operand >= 0) {
    const std::optional<Mode> mode = binary_of(op.name);
    if (!mode || !has_input(op.operand)) {
      g_.reason = "cuDNN has no operation " + to_string(op);
      return;
    }
    return append({*mode}, add_operand(op.operand));
  }
  if (op.name == "Linear") return append_linear(op.alpha, op.beta);
  if (op.name == "HardSigmoid" || op.name == "HardSwish") {
    const bool swish = op.name == "HardSwish";
    const int before = value_;
    append_linear(swish ? 1.0f / 6 : op.alpha, swish ? 0.5f : op.beta);
    append({Mode::RELU, -1, -1, -1, 0, 1});
    if (swish) append({Mode::MUL}, before);
    return;
  }
  if (const std::optional<PointwiseSpec> spec = activation_of(op)) return append(*spec);
  g_.reason = "cuDNN has no operation " + op.name;
}

// The bias and what is added right behind it may stand in any order: operands as large as the result come first, as the
// kernels that cuDNN has ready expect.
void GraphBuilder::add_epilogue() {
  value_ = g_.to;
  const std::vector<EpilogueOp> ops = epilogue_of(shape_.step->attrs);
  const auto is_whole_addend = [&](const EpilogueOp& op) {
    return op.name == "Add" && has_input(op.operand) && in(op.operand).dims.count() == shape_.outputs[0].dims.count();
  };
  size_t first = 0;
  while (first < ops.size() && is_whole_addend(ops[first])) append_op(ops[first++]);
  add_own_terms();
  for (size_t i = first; i < ops.size() && g_.reason.empty(); ++i) append_op(ops[i]);
  TensorSpec& result = g_.tensors[static_cast<size_t>(value_)];
  result.kind = TensorSpec::Kind::OUTPUT;
  result.dtype = shape_.outputs[0].dtype;
}

}  // namespace deepjit::cudnn
