// Operators of ONNX Runtime's own domain that other operators express.
#include "import/onnx/node_import.h"

namespace deepjit::importer {

namespace {

void same_as_onnx(NodeImport& node) {
  const std::string prefix = "com.microsoft.";
  node.finish(node.op.substr(prefix.size()), node.inputs, node.attrs);
}

Attributes tanh_gelu() {
  Attributes attrs;
  attrs.set("approximate", std::string("tanh"));
  return attrs;
}

void fast_gelu(NodeImport& node) {
  Value* x = node.require_input(0);
  if (node.input(1) != nullptr) x = node.emit("Add", {x, node.input(1)});
  node.finish("Gelu", {x}, tanh_gelu());
}

void bias_gelu(NodeImport& node) {
  node.finish("Gelu", {node.emit("Add", {node.require_input(0), node.require_input(1)})}, {});
}

void quick_gelu(NodeImport& node) {
  Value* x = node.require_input(0);
  Value* alpha = node.scalar_like(node.attrs.get_float("alpha", 1.702f), x);
  node.finish("Mul", {x, node.emit("Sigmoid", {node.emit("Mul", {x, alpha})})}, {});
}

void simplified_layer_normalization(NodeImport& node) {
  node.keep_outputs(1);
  node.finish("RMSNormalization", node.inputs, node.attrs);
}

// Norm of the sum of input, skip and bias; the sum is output 3.
void skip_norm(NodeImport& node, const char* norm, std::vector<Value*> parameters, Value* bias) {
  Value* sum = node.emit("Add", {node.require_input(0), node.require_input(1)});
  if (bias != nullptr) sum = node.emit("Add", {sum, bias});
  if (node.has_output(1) || node.has_output(2)) node.keep_outputs(1);
  Attributes attrs;
  attrs.set("axis", int64_t{-1});
  attrs.set("epsilon", node.attrs.get_float("epsilon", 1e-5f));
  parameters.insert(parameters.begin(), sum);
  while (parameters.back() == nullptr) parameters.pop_back();
  node.define(0, norm, parameters, attrs);
  node.define(3, "Identity", {sum});
}

void skip_layer_normalization(NodeImport& node) {
  skip_norm(node, "LayerNormalization", {node.require_input(2), node.input(3)}, node.input(4));
}

void skip_simplified_layer_normalization(NodeImport& node) {
  skip_norm(node, "RMSNormalization", {node.require_input(2)}, node.input(3));
}

Value* swap_last_two(NodeImport& node, Value* value) {
  const std::optional<int> rank = rank_of(value);
  if (!rank || *rank < 2) throw Error(Code::UNSUPPORTED_OP, "a transposed operand of unknown rank is not supported");
  std::vector<int64_t> perm;
  for (int i = 0; i < *rank; ++i) perm.push_back(i);
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  Attributes attrs;
  attrs.set("perm", perm);
  return node.emit("Transpose", {value}, attrs);
}

void fused_matmul(NodeImport& node) {
  if (node.attrs.get_int("transBatchA", 0) != 0 || node.attrs.get_int("transBatchB", 0) != 0) {
    throw Error(Code::UNSUPPORTED_OP, "transBatchA and transBatchB are not supported");
  }
  Value* a = node.require_input(0);
  Value* b = node.require_input(1);
  if (node.attrs.get_int("transA", 0) != 0) a = swap_last_two(node, a);
  if (node.attrs.get_int("transB", 0) != 0) b = swap_last_two(node, b);
  const float alpha = node.attrs.get_float("alpha", 1);
  if (alpha == 1) {
    node.finish("MatMul", {a, b}, {});
    return;
  }
  node.finish("Mul", {node.emit("MatMul", {a, b}), node.scalar_like(alpha, a)}, {});
}

// int8 product of `a` and `b`, scaled to float, plus a bias.
void scaled_product(NodeImport& node, std::vector<Value*> product_inputs, Value* a_scale, Value* b_scale, Value* bias) {
  while (product_inputs.back() == nullptr) product_inputs.pop_back();
  Value* product = node.emit("MatMulInteger", std::move(product_inputs));
  Attributes to_float;
  to_float.set("to", static_cast<int64_t>(DType::FLOAT32));
  Value* real = node.emit("Cast", {product}, to_float);
  Value* scale = node.emit("Mul", {a_scale, b_scale});
  if (bias == nullptr) {
    node.finish("Mul", {real, scale}, {});
    return;
  }
  node.finish("Add", {node.emit("Mul", {real, scale}), bias}, {});
}

void matmul_integer_to_float(NodeImport& node) {
  scaled_product(node, {node.require_input(0), node.require_input(1), node.input(4), node.input(5)},
                 node.require_input(2), node.require_input(3), node.input(6));
}

void dynamic_quantize_matmul(NodeImport& node) {
  Node* quantize = node.emit_many("DynamicQuantizeLinear", {node.require_input(0)}, {}, 3);
  scaled_product(node, {quantize->output(0), node.require_input(1), quantize->output(2), node.input(3)},
                 quantize->output(1), node.require_input(2), node.input(4));
}

}  // namespace

void add_microsoft_handlers(HandlerMap& map) {
  for (const char* op : {"Gelu", "LayerNormalization", "QuantizeLinear", "DequantizeLinear", "Trilu", "Unique", "Range",
                         "GridSample", "Pad"}) {
    map[std::string("com.microsoft.") + op] = same_as_onnx;
  }
  map["com.microsoft.FastGelu"] = fast_gelu;
  map["com.microsoft.BiasGelu"] = bias_gelu;
  map["com.microsoft.QuickGelu"] = quick_gelu;
  map["com.microsoft.SkipLayerNormalization"] = skip_layer_normalization;
  map["com.microsoft.SkipSimplifiedLayerNormalization"] = skip_simplified_layer_normalization;
  map["com.microsoft.FusedMatMul"] = fused_matmul;
  map["com.microsoft.TransposeMatMul"] = fused_matmul;
  map["com.microsoft.MatMulIntegerToFloat"] = matmul_integer_to_float;
  map["com.microsoft.DynamicQuantizeMatMul"] = dynamic_quantize_matmul;
  // ONNX Runtime puts this one in the default domain as well.
  map["SimplifiedLayerNormalization"] = simplified_layer_normalization;
  map["com.microsoft.SimplifiedLayerNormalization"] = simplified_layer_normalization;
}

}  // namespace deepjit::importer
