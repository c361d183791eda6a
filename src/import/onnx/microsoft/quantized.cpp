// Quantized operators, as the plain operator between dequantize and quantize.
#include "import/onnx/microsoft/families.h"

namespace deepjit::importer {

namespace {

Value* dequantize(const Emit& emit, Value* x, Value* scale, Value* zero_point) {
  std::vector<Value*> inputs = {x, scale};
  if (zero_point != nullptr) inputs.push_back(zero_point);
  return emit.op("DequantizeLinear", std::move(inputs));
}

Value* dequantize_input(const Emit& emit, size_t i) {
  const NodeImport& node = emit.node();
  return dequantize(emit, node.require_input(i), node.require_input(i + 1), node.input(i + 2));
}

// Scale and zero point are inputs i and i + 1. The type is that of `like`, when no zero point says it.
void quantize_output(const Emit& emit, Value* y, size_t i, Value* like) {
  NodeImport& node = emit.node();
  Attributes attrs;
  if (node.input(i + 1) == nullptr) attrs.set("output_dtype", static_cast<int64_t>(dtype_of(like)));
  node.finish("QuantizeLinear", {y, node.require_input(i), node.input(i + 1)}, attrs);
}

std::string plain_op(const NodeImport& node) {
  const std::string prefix = "com.microsoft.QLinear";
  return node.op.substr(prefix.size());
}

// QLinearAdd, QLinearMul: A, A_scale, A_zero_point, B, ..., C_scale, C_zero_point.
void qlinear_binary(NodeImport& node) {
  const Emit emit(node);
  Value* y = emit.op(plain_op(node), {dequantize_input(emit, 0), dequantize_input(emit, 3)});
  quantize_output(emit, y, 6, node.require_input(0));
}

// X, X_scale, X_zero_point, Y_scale, Y_zero_point.
void qlinear_unary(NodeImport& node) {
  const Emit emit(node);
  const bool channels_last = node.attrs.get_int("channels_last", 0) != 0;
  Attributes attrs = node.attrs;
  attrs.erase("channels_last");
  Value* x = dequantize_input(emit, 0);
  if (channels_last) x = to_channels_first(emit, x);
  Value* y = node.emit(plain_op(node), {x}, attrs);
  if (channels_last) y = to_channels_last(emit, y);
  quantize_output(emit, y, 3, node.require_input(0));
}

// Before opset 13 the dims from `axis` on are one.
void qlinear_softmax(NodeImport& node) {
  const Emit emit(node);
  const bool old = node.attrs.require_int("opset") < 13;
  const int64_t axis = node.attrs.get_int("axis", old ? 1 : -1);
  Value* x = dequantize_input(emit, 0);
  Value* y = nullptr;
  if (old) {
    Value* matrix = emit.op("Flatten", {x}, "axis", axis);
    y = emit.reshape_like(emit.softmax(matrix), x);
  } else {
    y = emit.op("Softmax", {x}, "axis", axis);
  }
  quantize_output(emit, y, 3, node.require_input(0));
}

void qlinear_reduce_mean(NodeImport& node) {
  const Emit emit(node);
  Attributes attrs;
  attrs.set("keepdims", node.attrs.get_int("keepdims", 1));
  std::vector<Value*> inputs = {dequantize_input(emit, 0)};
  const std::vector<int64_t> axes = node.attrs.get_ints("axes");
  if (!axes.empty()) inputs.push_back(emit.ints(axes));
  quantize_output(emit, node.emit("ReduceMean", std::move(inputs), attrs), 3, node.require_input(0));
}

// condition, X, X_scale, X_zero_point, Y, ..., Z_scale, Z_zero_point.
void qlinear_where(NodeImport& node) {
  const Emit emit(node);
  Value* z = emit.op("Where", {node.require_input(0), dequantize_input(emit, 1), dequantize_input(emit, 4)});
  quantize_output(emit, z, 7, node.require_input(1));
}

// Y_scale, Y_zero_point, then (X, scale, zero_point) for each part.
void qlinear_concat(NodeImport& node) {
  const Emit emit(node);
  std::vector<Value*> parts;
  for (size_t i = 2; i < node.input_count(); i += 3) parts.push_back(dequantize_input(emit, i));
  if (parts.empty()) throw Error(Code::ARITY, "has no parts to join");
  Value* y = node.emit("Concat", std::move(parts), node.attrs);
  quantize_output(emit, y, 0, node.require_input(2));
}

// A, A_zero_point, B, B_zero_point: the product in int32.
void mul_integer(NodeImport& node) {
  const Emit emit(node);
  auto centred = [&](size_t i) {
    Value* x = emit.cast(node.require_input(i), DType::INT32);
    return node.input(i + 1) == nullptr ? x : emit.sub(x, emit.cast(node.input(i + 1), DType::INT32));
  };
  Value* a = centred(0);
  node.finish("Mul", {a, centred(2)}, {});
}

}  // namespace

void add_microsoft_quantized_handlers(HandlerMap& map) {
  const std::string prefix = "com.microsoft.";
  for (const char* op : {"QLinearAdd", "QLinearMul"}) map[prefix + op] = qlinear_binary;
  for (const char* op : {"QLinearSigmoid", "QLinearLeakyRelu", "QLinearAveragePool", "QLinearGlobalAveragePool"}) {
    map[prefix + op] = qlinear_unary;
  }
  map[prefix + "QLinearSoftmax"] = qlinear_softmax;
  map[prefix + "QLinearReduceMean"] = qlinear_reduce_mean;
  map[prefix + "QLinearWhere"] = qlinear_where;
  map[prefix + "QLinearConcat"] = qlinear_concat;
  map[prefix + "MulInteger"] = mul_integer;
}

}  // namespace deepjit::importer
