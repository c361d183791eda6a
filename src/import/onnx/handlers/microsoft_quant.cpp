// ONNX Runtime's quantized operators, as the plain operator between dequantize and quantize.
#include "import/onnx/node_import.h"

namespace deepjit::importer {

namespace {

Value* dequantize(NodeImport& node, Value* x, Value* scale, Value* zero_point) {
  std::vector<Value*> inputs = {x, scale};
  if (zero_point != nullptr) inputs.push_back(zero_point);
  return node.emit("DequantizeLinear", std::move(inputs));
}

Value* dequantize_input(NodeImport& node, size_t i) {
  return dequantize(node, node.require_input(i), node.require_input(i + 1), node.input(i + 2));
}

void quantize_output(NodeImport& node, Value* y, Value* scale, Value* zero_point) {
  std::vector<Value*> inputs = {y, scale};
  if (zero_point != nullptr) inputs.push_back(zero_point);
  node.finish("QuantizeLinear", std::move(inputs), {});
}

std::string plain_op(const NodeImport& node) {
  const std::string prefix = "com.microsoft.QLinear";
  return node.op.substr(prefix.size());
}

// QLinearAdd, QLinearMul: A, A_scale, A_zero_point, B, ..., C_scale, C_zero_point.
void qlinear_binary(NodeImport& node) {
  Value* y = node.emit(plain_op(node), {dequantize_input(node, 0), dequantize_input(node, 3)});
  quantize_output(node, y, node.require_input(6), node.input(7));
}

// X, X_scale, X_zero_point, Y_scale, Y_zero_point.
void qlinear_unary(NodeImport& node) {
  if (node.attrs.get_int("channels_last", 0) != 0) {
    throw Error(Code::UNSUPPORTED_OP, "channels_last is not supported");
  }
  Attributes attrs = node.attrs;
  attrs.erase("channels_last");
  Value* y = node.emit(plain_op(node), {dequantize_input(node, 0)}, attrs);
  quantize_output(node, y, node.require_input(3), node.input(4));
}

// Y_scale, Y_zero_point, then (X, scale, zero_point) for each part.
void qlinear_concat(NodeImport& node) {
  std::vector<Value*> parts;
  for (size_t i = 2; i < node.input_count(); i += 3) parts.push_back(dequantize_input(node, i));
  if (parts.empty()) throw Error(Code::ARITY, "has no parts to join");
  Value* y = node.emit("Concat", std::move(parts), node.attrs);
  quantize_output(node, y, node.require_input(0), node.input(1));
}

// Weights [directions, in, 4 * hidden] in int8 to LSTM's [directions, 4 * hidden, in] in float.
Value* lstm_weights(NodeImport& node, Value* weights, Value* scale, Value* zero_point) {
  const Tensor* known = constant_of(scale);
  if (known != nullptr && known->dims().rank() == 2) {
    throw Error(Code::UNSUPPORTED_OP, "a scale for each channel is not supported");
  }
  // One scale a direction: [directions] is made [directions, 1, 1] and multiplied by hand.
  Attributes to_float;
  to_float.set("to", static_cast<int64_t>(DType::FLOAT32));
  Value* real = node.emit("Cast", {weights}, to_float);
  Value* shape = node.ints({-1, 1, 1});
  if (zero_point != nullptr) {
    Value* zero = node.emit("Cast", {node.emit("Reshape", {zero_point, shape})}, to_float);
    real = node.emit("Sub", {real, zero});
  }
  real = node.emit("Mul", {real, node.emit("Reshape", {scale, shape})});
  Attributes perm;
  perm.set("perm", std::vector<int64_t>{0, 2, 1});
  return node.emit("Transpose", {real}, perm);
}

// X, W, R, B, sequence_lens, initial_h, initial_c, P, W_scale, W_zero_point, R_scale, R_zero_point. The activations
// stay in float, which is more exact than quantizing them on the way.
void dynamic_quantize_lstm(NodeImport& node) {
  Value* w = lstm_weights(node, node.require_input(1), node.require_input(8), node.input(9));
  Value* r = lstm_weights(node, node.require_input(2), node.require_input(10), node.input(11));
  node.finish("LSTM",
              {node.require_input(0), w, r, node.input(3), node.input(4), node.input(5), node.input(6), node.input(7)},
              node.attrs);
}

// Conv or Gemm with an activation behind it.
void fused_activation(NodeImport& node, const std::string& op, const char* prefix) {
  const std::string activation = node.attrs.get_string("activation", "");
  Attributes plain;
  Attributes act;
  for (const auto& [key, value] : node.attrs.all()) {
    if (key.rfind("activation", 0) != 0) plain.set(key, value);
  }
  if (activation == "LeakyRelu" || activation == "HardSigmoid") {
    const std::vector<float> params = node.attrs.get_floats("activation_params");
    const float alpha = node.attrs.get_float("activation_alpha", activation == "LeakyRelu" ? 0.01f : 0.2f);
    act.set("alpha", params.empty() ? alpha : params[0]);
    const float beta = node.attrs.get_float("activation_beta", 0.5f);
    if (activation == "HardSigmoid") act.set("beta", params.size() < 2 ? beta : params[1]);
  } else if (activation != "Relu" && activation != "Sigmoid" && activation != "Tanh" && !activation.empty()) {
    throw Error(Code::UNSUPPORTED_OP, std::string(prefix) + " with activation " + activation + " is not supported");
  }
  std::vector<Value*> inputs = node.inputs;
  Value* added = inputs.size() > 3 ? inputs[3] : nullptr;
  inputs.resize(std::min<size_t>(inputs.size(), 3));
  Value* y = node.emit(op, std::move(inputs), plain);
  if (added != nullptr) y = node.emit("Add", {y, added});
  node.finish(activation.empty() ? "Identity" : activation, {y}, act);
}

void fused_conv(NodeImport& node) { fused_activation(node, "Conv", "FusedConv"); }
void fused_gemm(NodeImport& node) { fused_activation(node, "Gemm", "FusedGemm"); }

}  // namespace

void add_microsoft_quant_handlers(HandlerMap& map) {
  const std::string prefix = "com.microsoft.";
  for (const char* op : {"QLinearAdd", "QLinearMul"}) map[prefix + op] = qlinear_binary;
  for (const char* op : {"QLinearSigmoid", "QLinearLeakyRelu", "QLinearAveragePool", "QLinearGlobalAveragePool"}) {
    map[prefix + op] = qlinear_unary;
  }
  map[prefix + "QLinearConcat"] = qlinear_concat;
  map[prefix + "DynamicQuantizeLSTM"] = dynamic_quantize_lstm;
  map[prefix + "FusedConv"] = fused_conv;
  map[prefix + "FusedGemm"] = fused_gemm;
}

}  // namespace deepjit::importer
