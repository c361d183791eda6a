// Convolutions and pooling with an activation behind them or channels last around them.
#include "import/onnx/microsoft/families.h"

namespace deepjit::importer {

namespace {

// The node's attributes without those of the activation and the layout.
Attributes plain_attributes(const NodeImport& node) {
  Attributes out;
  for (const auto& [key, value] : node.attrs.all()) {
    if (key.rfind("activation", 0) != 0 && key != "channels_last") out.set(key, value);
  }
  return out;
}

// X, W, B, Z: the activation of the convolution plus Z.
void define_conv(const Emit& emit, bool channels_last) {
  NodeImport& node = emit.node();
  Value* x = node.require_input(0);
  std::vector<Value*> inputs = {channels_last ? to_channels_first(emit, x) : x, node.require_input(1)};
  if (node.input(2) != nullptr) inputs.push_back(node.input(2));
  Value* y = node.emit("Conv", std::move(inputs), plain_attributes(node));
  if (channels_last) y = to_channels_last(emit, y);
  if (node.input(3) != nullptr) y = emit.add(y, node.input(3));
  node.finish("Identity", {fused_activation(emit, y, node.attrs.get_string("activation", ""))}, {});
}

void fused_conv(NodeImport& node) { define_conv(Emit(node), false); }
void nhwc_conv(NodeImport& node) { define_conv(Emit(node), true); }

void nhwc_max_pool(NodeImport& node) {
  const Emit emit(node);
  Value* y = node.emit("MaxPool", {to_channels_first(emit, node.require_input(0))}, node.attrs);
  node.finish("Identity", {to_channels_last(emit, y)}, {});
}

void fused_gemm(NodeImport& node) {
  const Emit emit(node);
  Value* y = node.emit("Gemm", node.inputs, plain_attributes(node));
  node.finish("Identity", {fused_activation(emit, y, node.attrs.get_string("activation", ""))}, {});
}

// As ONNX's, but with channels last when asked for.
void qlinear_conv(NodeImport& node) {
  const Emit emit(node);
  const bool channels_last = node.attrs.get_int("channels_last", 0) != 0;
  if (!channels_last) {
    node.finish("QLinearConv", node.inputs, plain_attributes(node));
    return;
  }
  std::vector<Value*> inputs = node.inputs;
  inputs[0] = to_channels_first(emit, node.require_input(0));
  Value* y = node.emit("QLinearConv", std::move(inputs), plain_attributes(node));
  node.finish("Identity", {to_channels_last(emit, y)}, {});
}

}  // namespace

void add_microsoft_conv_handlers(HandlerMap& map) {
  map["com.microsoft.FusedConv"] = fused_conv;
  map["com.microsoft.NhwcConv"] = nhwc_conv;
  map["com.microsoft.NhwcFusedConv"] = nhwc_conv;
  map["com.microsoft.NhwcMaxPool"] = nhwc_max_pool;
  map["com.microsoft.FusedGemm"] = fused_gemm;
  map["com.microsoft.QLinearConv"] = qlinear_conv;
}

}  // namespace deepjit::importer
