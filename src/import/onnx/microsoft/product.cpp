// Matrix products with transposes, scales and biases, in float and in int8.
#include "import/onnx/microsoft/families.h"

namespace deepjit::importer {

namespace {

// Dim 0 moves behind the batch dims, which makes it the rows.
Value* rows_behind_batch(const Emit& emit, Value* x) {
  const int rank = require_rank(x, "an operand with transposed batch dims");
  if (rank < 3) return x;
  std::vector<int64_t> perm;
  for (int64_t i = 1; i < rank - 1; ++i) perm.push_back(i);
  perm.push_back(0);
  perm.push_back(rank - 1);
  return emit.transpose(x, perm);
}

Value* operand(const Emit& emit, size_t input, const char* transpose, const char* transpose_batch) {
  const NodeImport& node = emit.node();
  Value* x = node.require_input(input);
  if (node.attrs.get_int(transpose_batch, 0) != 0) x = rows_behind_batch(emit, x);
  // A vector stays as it is.
  if (node.attrs.get_int(transpose, 0) != 0 && rank_of(x) != 1) x = emit.swap_last_two(x);
  return x;
}

Value* fused_product(const Emit& emit) {
  Value* a = operand(emit, 0, "transA", "transBatchA");
  Value* b = operand(emit, 1, "transB", "transBatchB");
  return emit.scale(emit.matmul(a, b), emit.node().attrs.get_float("alpha", 1));
}

void fused_matmul(NodeImport& node) { node.finish("Identity", {fused_product(Emit(node))}, {}); }

void fused_matmul_activation(NodeImport& node) {
  const Emit emit(node);
  node.finish("Identity", {fused_activation(emit, fused_product(emit), node.attrs.get_string("activation", ""))}, {});
}

Value* integer_product(const Emit& emit, Value* a, Value* b, Value* a_zero, Value* b_zero) {
  std::vector<Value*> inputs = {a, b, a_zero, b_zero};
  while (inputs.back() == nullptr) inputs.pop_back();
  return emit.op("MatMulInteger", std::move(inputs));
}

// int32 sums times both scales, in the scales' type, plus a bias.
Value* to_real(const Emit& emit, Value* sums, Value* a_scale, Value* b_scale, Value* bias) {
  Value* y = emit.mul(emit.cast(sums, DType::FLOAT32), emit.cast(emit.mul(a_scale, b_scale), DType::FLOAT32));
  y = emit.cast_like(y, a_scale);
  return bias == nullptr ? y : emit.add(y, bias);
}

void matmul_integer_to_float(NodeImport& node) {
  const Emit emit(node);
  Value* sums = integer_product(emit, node.require_input(0), node.require_input(1), node.input(4), node.input(5));
  node.finish("Identity", {to_real(emit, sums, node.require_input(2), node.require_input(3), node.input(6))}, {});
}

void dynamic_quantize_matmul(NodeImport& node) {
  const Emit emit(node);
  Node* a = node.emit_many("DynamicQuantizeLinear", {node.require_input(0)}, {}, 3);
  Value* sums = integer_product(emit, a->output(0), node.require_input(1), a->output(2), node.input(3));
  node.finish("Identity", {to_real(emit, sums, a->output(1), node.require_input(2), node.input(4))}, {});
}

// A, a_scale, a_zero_point, B, b_scale, b_zero_point, C in int32, y_scale, y_zero_point.
void qgemm(NodeImport& node) {
  const Emit emit(node);
  Value* a = operand(emit, 0, "transA", "");
  Value* b = operand(emit, 3, "transB", "");
  Value* sums = integer_product(emit, a, b, node.input(2), node.input(5));
  if (node.input(6) != nullptr) sums = emit.add(sums, node.input(6));
  Value* y = to_real(emit, sums, node.require_input(1), node.require_input(4), nullptr);
  y = emit.scale(y, node.attrs.get_float("alpha", 1));
  if (node.input(7) == nullptr) {
    node.finish("Identity", {y}, {});
    return;
  }
  node.finish("QuantizeLinear", {y, node.input(7), node.input(8)}, {});
}

}  // namespace

void add_microsoft_product_handlers(HandlerMap& map) {
  map["com.microsoft.FusedMatMul"] = fused_matmul;
  map["com.microsoft.TransposeMatMul"] = fused_matmul;
  map["com.microsoft.FusedMatMulActivation"] = fused_matmul_activation;
  map["com.microsoft.MatMulIntegerToFloat"] = matmul_integer_to_float;
  map["com.microsoft.DynamicQuantizeMatMul"] = dynamic_quantize_matmul;
  map["com.microsoft.QGemm"] = qgemm;
}

}  // namespace deepjit::importer
