// Activations with their biases, and operators that only differ from ONNX's in a detail.
#include "import/onnx/microsoft/families.h"
#include "import/onnx/tensor.h"

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
  const Emit emit(node);
  Value* x = node.require_input(0);
  node.finish("Mul", {x, emit.op("Sigmoid", {emit.scale(x, node.attrs.get_float("alpha", 1.702f))})}, {});
}

void gemm_fast_gelu(NodeImport& node) {
  const Emit emit(node);
  Value* y = emit.matmul(node.require_input(0), node.require_input(1));
  if (node.input(2) != nullptr) y = emit.add(y, node.input(2));
  node.finish("Gelu", {y}, tanh_gelu());
}

void bias_add(NodeImport& node) {
  const Emit emit(node);
  node.finish("Add", {emit.add(node.require_input(0), node.require_input(1)), node.require_input(2)}, {});
}

// The left half times the Gelu of the right half.
void bias_split_gelu(NodeImport& node) {
  const Emit emit(node);
  Attributes halves;
  halves.set("axis", int64_t{-1});
  halves.set("num_outputs", int64_t{2});
  Value* sum = emit.add(node.require_input(0), node.require_input(1));
  Node* split = node.emit_many("Split", {sum}, halves, 2);
  node.finish("Mul", {split->output(0), emit.op("Gelu", {split->output(1)})}, {});
}

// The dims from `axis` on are one. The bias lacks the leading dims, or has ones in the middle.
void bias_softmax(NodeImport& node) {
  const Emit emit(node);
  Value* sum = emit.add(node.require_input(0), node.require_input(1));
  const int rank = require_rank(sum, "a softmax");
  const int64_t axis = node.attrs.get_int("axis", 1);
  if (axis == rank - 1 || axis == -1) {
    Attributes last;
    last.set("axis", int64_t{-1});
    node.finish("Softmax", {sum}, last);
    return;
  }
  Value* matrix = emit.op("Flatten", {sum}, "axis", axis);
  node.define(0, "Identity", {emit.reshape_like(emit.softmax(matrix), sum)});
}

void range(NodeImport& node) {
  const Emit emit(node);
  Value* start = node.require_input(0);
  std::vector<Value*> inputs = {start, node.require_input(1), node.input(2)};
  if (inputs[2] == nullptr) inputs[2] = emit.scalar_like(1, start);
  for (Value*& v : inputs) {
    if (rank_of(v) != 0) v = emit.reshape(v, std::vector<int64_t>{});
  }
  node.finish("Range", std::move(inputs), {});
}

// In the order of first occurrence; outputs y, the index of each element, counts.
void unique(NodeImport& node) {
  Attributes attrs;
  attrs.set("sorted", int64_t{0});
  Node* found = node.emit_many("Unique", {node.require_input(0)}, attrs, 4);
  node.define(0, "Identity", {found->output(0)});
  node.define(1, "Identity", {found->output(2)});
  node.define(2, "Identity", {found->output(3)});
}

void pad(NodeImport& node) {
  const Emit emit(node);
  std::vector<Value*> inputs = {node.require_input(0), emit.reshape(node.require_input(1), {-1}), node.input(2)};
  if (inputs[2] != nullptr) inputs[2] = emit.reshape(inputs[2], std::vector<int64_t>{});
  node.finish("Pad", std::move(inputs), node.attrs);
}

void expand_dims(NodeImport& node) {
  const Emit emit(node);
  Value* axis = emit.cast(emit.reshape(node.require_input(1), {1}), DType::INT64);
  node.finish("Unsqueeze", {node.require_input(0), axis}, {});
}

void grid_sample(NodeImport& node) {
  const std::string mode = node.attrs.get_string("mode", "bilinear");
  node.attrs.set("mode", mode == "bilinear" ? std::string("linear") : mode == "bicubic" ? std::string("cubic") : mode);
  same_as_onnx(node);
}

float parameter(const NodeImport& node, size_t i, const char* attribute, float fallback) {
  const std::vector<float> params = node.attrs.get_floats("activation_params");
  return i < params.size() ? params[i] : node.attrs.get_float(attribute, fallback);
}

}  // namespace

Value* fused_activation(const Emit& emit, Value* x, const std::string& name) {
  const NodeImport& node = emit.node();
  Attributes attrs;
  if (name.empty()) return x;
  if (name == "LeakyRelu") {
    attrs.set("alpha", parameter(node, 0, "activation_alpha", 0.01f));
  } else if (name == "HardSigmoid") {
    attrs.set("alpha", parameter(node, 0, "activation_alpha", 0.2f));
    attrs.set("beta", parameter(node, 1, "activation_beta", 0.5f));
  } else if (name == "Clip") {
    Value* low = emit.scalar_like(parameter(node, 0, "activation_alpha", 0), x);
    return emit.op("Clip", {x, low, emit.scalar_like(parameter(node, 1, "activation_beta", 0), x)});
  } else if (name != "Relu" && name != "Sigmoid" && name != "Tanh" && name != "Softplus" && name != "HardSwish") {
    throw Error(Code::UNSUPPORTED_OP, "the activation " + name + " is not supported");
  }
  return emit.node().emit(name, {x}, attrs);
}

void add_microsoft_activation_handlers(HandlerMap& map) {
  for (const char* op : {"Gelu", "LayerNormalization", "QuantizeLinear", "DequantizeLinear", "Trilu", "GatherND"}) {
    map[std::string("com.microsoft.") + op] = same_as_onnx;
  }
  map["com.microsoft.FastGelu"] = fast_gelu;
  map["com.microsoft.BiasGelu"] = bias_gelu;
  map["com.microsoft.QuickGelu"] = quick_gelu;
  map["com.microsoft.GemmFastGelu"] = gemm_fast_gelu;
  map["com.microsoft.BiasAdd"] = bias_add;
  map["com.microsoft.BiasSplitGelu"] = bias_split_gelu;
  map["com.microsoft.BiasSoftmax"] = bias_softmax;
  map["com.microsoft.Range"] = range;
  map["com.microsoft.Unique"] = unique;
  map["com.microsoft.Pad"] = pad;
  map["com.microsoft.ExpandDims"] = expand_dims;
  map["com.microsoft.GridSample"] = grid_sample;
}

}  // namespace deepjit::importer
