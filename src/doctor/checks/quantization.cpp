// DJ501 to DJ504: QuantizeLinear and DequantizeLinear where they do harm.
#include <set>

#include "doctor/checkup.h"
#include "doctor/editor.h"

namespace deepjit::doctor {

namespace {

bool product(const onnx::NodeProto* node) {
  return is(node, "Conv") || is(node, "ConvTranspose") || is(node, "MatMul") || is(node, "Gemm");
}

bool same_constant(const ModelView& model, const GraphView& graph, const std::string& a, const std::string& b) {
  if (a == b) return true;
  const Tensor* x = model.constant(graph, a);
  const Tensor* y = model.constant(graph, b);
  if (x != nullptr && y != nullptr) return x->same_as(*y);
  // A zero point that is left out is a zero.
  const Tensor* given = x != nullptr ? x : y;
  if (given == nullptr || !(a.empty() || b.empty()) || !is_integer(given->dtype())) return false;
  for (int64_t v : given->to_i64()) {
    if (v != 0) return false;
  }
  return true;
}

bool known(const ModelView& model, const GraphView& graph, const onnx::NodeProto& node) {
  return model.constant(graph, input_of(node, 1)) != nullptr &&
         (input_of(node, 2).empty() || model.constant(graph, input_of(node, 2)) != nullptr);
}

bool same_parameters(const ModelView& model, const GraphView& graph, const onnx::NodeProto& a,
                     const onnx::NodeProto& b) {
  return same_constant(model, graph, input_of(a, 1), input_of(b, 1)) &&
         same_constant(model, graph, input_of(a, 2), input_of(b, 2)) &&
         int_attribute(a, "axis", 1) == int_attribute(b, "axis", 1) &&
         int_attribute(a, "block_size", 0) == int_attribute(b, "block_size", 0);
}

// What a convolution or matrix product takes in as its epilogue.
bool fuses_behind(const ModelView& model, const GraphView& graph, const onnx::NodeProto* node,
                  const std::string& value) {
  static const std::set<std::string> epilogue = {"Relu", "Clip", "LeakyRelu", "BatchNormalization", "HardSwish"};
  if (node == nullptr || !default_domain(*node)) return false;
  if (epilogue.count(node->op_type()) != 0) return input_of(*node, 0) == value;
  // A bias: one number a channel.
  if (!is(node, "Add") || node->input_size() != 2) return false;
  return model.constant(graph, input_of(*node, input_of(*node, 0) == value ? 1 : 0)) != nullptr;
}

// The product whose result the value is, behind at most a bias.
const onnx::NodeProto* product_before(const ModelView& model, const GraphView& graph, const std::string& value) {
  const onnx::NodeProto* node = graph.producer(value);
  if (is(node, "Add") && node->input_size() == 2) {
    for (int i = 0; i < 2; ++i) {
      if (model.constant(graph, input_of(*node, 1 - i)) != nullptr) node = graph.producer(input_of(*node, i));
    }
  }
  return product(node) ? node : nullptr;
}

bool dequantized(const GraphView& graph, const std::string& value) {
  return is(graph.producer(value), "DequantizeLinear");
}

}  // namespace

void check_quantized_inside_fusion(Checkup& checkup) {
  const ModelView& model = checkup.model;
  checkup.each_node([&](const GraphView& graph, const onnx::NodeProto& node) {
    if (!is(&node, "QuantizeLinear")) return;
    const onnx::NodeProto* before = product_before(model, graph, input_of(node, 0));
    const onnx::NodeProto* back = graph.only_reader(output_of(node, 0));
    if (before == nullptr || graph.only_reader(input_of(node, 0)) == nullptr || !is(back, "DequantizeLinear")) return;
    const onnx::NodeProto* next = graph.only_reader(output_of(*back, 0));
    if (!fuses_behind(model, graph, next, output_of(*back, 0))) return;
    Finding& finding = checkup.found(graph, node,
                                     "stands between \"" + graph.name_of(*before) + "\" (" + before->op_type() +
                                         ") and \"" + graph.name_of(*next) + "\" (" + next->op_type() + ")");
    Checkup::costs(finding, {&node, back});
  });
}

void check_half_quantized(Checkup& checkup) {
  const ModelView& model = checkup.model;
  checkup.each_node([&](const GraphView& graph, const onnx::NodeProto& node) {
    if (!product(&node) || node.input_size() < 2) return;
    const onnx::NodeProto* activation = graph.producer(input_of(node, 0));
    if (!is(activation, "DequantizeLinear")) return;
    const std::string& weight = input_of(node, 1);
    if (model.constant(graph, weight) == nullptr || model.constant(graph, input_of(*activation, 0)) != nullptr) return;
    checkup.found(graph, node, "the activation is quantized, the weight \"" + weight + "\" is float");
  });
  checkup.each_node([&](const GraphView& graph, const onnx::NodeProto& node) {
    // Of convolutions: matrix products with integer weights alone are a scheme of their own.
    if (!is(&node, "Conv") || node.input_size() < 2 || !dequantized(graph, input_of(node, 1))) return;
    if (dequantized(graph, input_of(node, 0))) return;
    checkup.found(graph, node, "the weight is quantized, the activation \"" + input_of(node, 0) + "\" is float");
  });
}

void check_quantization_mismatch(Checkup& checkup) {
  const ModelView& model = checkup.model;
  checkup.each_node([&](const GraphView& graph, const onnx::NodeProto& node) {
    if (!is(&node, "DequantizeLinear")) return;
    const onnx::NodeProto* before = graph.producer(input_of(node, 0));
    if (!is(before, "QuantizeLinear") || !known(model, graph, node) || !known(model, graph, *before)) return;
    if (same_parameters(model, graph, *before, node)) return;
    Finding& finding =
        checkup.found(graph, node, "its scale or zero point is not that of \"" + graph.name_of(*before) + "\"");
    Checkup::costs(finding, {before, &node});
  });
}

void check_requantize(Checkup& checkup) {
  const ModelView& model = checkup.model;
  checkup.each_node([&](const GraphView& graph, const onnx::NodeProto& node) {
    if (!is(&node, "QuantizeLinear")) return;
    const onnx::NodeProto* before = graph.producer(input_of(node, 0));
    if (!is(before, "DequantizeLinear") || !known(model, graph, node) || !known(model, graph, *before)) return;
    if (!same_parameters(model, graph, *before, node)) return;
    const TensorType in = model.type(graph, input_of(*before, 0));
    if (in.dtype != model.type(graph, output_of(node, 0)).dtype) return;
    Finding& finding = checkup.found(graph, node, "quantizes again what \"" + graph.name_of(*before) + "\" opened up");
    Checkup::costs(finding, {before, &node});
    finding.mend = [scope = graph.index(), value = output_of(node, 0), source = input_of(*before, 0)](Editor& editor) {
      editor.alias(scope, value, source);
    };
  });
}

}  // namespace deepjit::doctor
