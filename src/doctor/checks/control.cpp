// DJ131, DJ133, DJ134: control flow that tracing made a constant.
#include <cstring>

#include "doctor/checkup.h"
#include "doctor/editor.h"

namespace deepjit::doctor {

namespace {

constexpr int kDepth = 8;

// The number of a scalar that does not depend on any input's data: a constant, or shape arithmetic that came out
// fixed.
std::optional<double> known_scalar(const ModelView& model, const GraphView& graph, const std::string& value, int depth);

std::optional<double> of_node(const ModelView& model, const GraphView& graph, const onnx::NodeProto& node, int depth) {
  const auto in = [&](int i) { return known_scalar(model, graph, input_of(node, i), depth - 1); };
  const auto a = in(0);
  if (!a) return std::nullopt;
  const std::string& op = node.op_type();
  if (op == "Identity" || op == "Cast" || op == "Squeeze" || op == "Unsqueeze" || op == "Reshape") return a;
  if (op == "Not") return *a == 0;
  const auto b = in(1);
  if (!b) return std::nullopt;
  if (op == "Equal") return *a == *b;
  if (op == "Greater") return *a > *b;
  if (op == "Less") return *a < *b;
  if (op == "GreaterOrEqual") return *a >= *b;
  if (op == "LessOrEqual") return *a <= *b;
  if (op == "And") return *a != 0 && *b != 0;
  if (op == "Or") return *a != 0 || *b != 0;
  return std::nullopt;
}

std::optional<double> known_scalar(const ModelView& model, const GraphView& graph, const std::string& value,
                                   int depth) {
  if (value.empty() || depth == 0) return std::nullopt;
  if (const auto number = model.scalar(graph, value)) return number;
  const Value* inferred = model.inferred(value);
  if (inferred != nullptr && inferred->values && inferred->values->size() == 1 && (*inferred->values)[0].is_const()) {
    return static_cast<double>((*inferred->values)[0].value());
  }
  for (const GraphView* g = &graph; g != nullptr; g = g->outer()) {
    if (!g->defines(value)) continue;
    const onnx::NodeProto* node = g->producer(value);
    return node == nullptr || !default_domain(*node) ? std::nullopt : of_node(model, *g, *node, depth);
  }
  return std::nullopt;
}

bool all_equal(const Tensor& t) {
  const char* bytes = t.as<char>();
  const auto size = static_cast<size_t>(t.bytes());
  return size > 0 && std::memcmp(bytes, bytes + 1, size - 1) == 0;
}

}  // namespace

void check_constant_if(Checkup& checkup) {
  checkup.each_node([&](const GraphView& graph, const onnx::NodeProto& node) {
    if (!is(&node, "If") || node.output_size() == 0) return;
    const auto condition = known_scalar(checkup.model, graph, input_of(node, 0), kDepth);
    if (!condition) return;
    const bool which = *condition != 0;
    Finding& finding = checkup.found(graph, node,
                                     std::string("the condition is always ") + (which ? "true" : "false") + ": the " +
                                         (which ? "else" : "then") + " branch can never run");
    finding.mend = [scope = graph.index(), value = output_of(node, 0), which](Editor& editor) {
      editor.take_branch(scope, value, which);
    };
  });
}

void check_constant_where(Checkup& checkup) {
  const ModelView& model = checkup.model;
  checkup.each_node([&](const GraphView& graph, const onnx::NodeProto& node) {
    if (!is(&node, "Where")) return;
    const Tensor* condition = model.constant(graph, input_of(node, 0));
    if (condition == nullptr || condition->dtype() != DType::BOOL || !all_equal(*condition)) return;
    if (model.constant(graph, input_of(node, 1)) != nullptr && model.constant(graph, input_of(node, 2)) != nullptr) {
      return;  // arithmetic on constants
    }
    const bool which = condition->as<uint8_t>()[0] != 0;
    const std::string& kept = input_of(node, which ? 1 : 2);
    Finding& finding =
        checkup.found(graph, node, std::string("the condition is ") + (which ? "true" : "false") + " everywhere");
    const TensorType in = model.type(graph, kept);
    const TensorType out = model.type(graph, output_of(node, 0));
    if (!in.shape.ranked() || !(in == out)) return;
    finding.mend = [scope = graph.index(), value = output_of(node, 0), kept](Editor& editor) {
      editor.alias(scope, value, kept);
    };
  });
}

void check_constant_loop(Checkup& checkup) {
  checkup.each_node([&](const GraphView& graph, const onnx::NodeProto& node) {
    if (!is(&node, "Loop")) return;
    const auto trips = known_scalar(checkup.model, graph, input_of(node, 0), kDepth);
    const auto first = known_scalar(checkup.model, graph, input_of(node, 1), kDepth);
    if (first && *first == 0) {
      checkup.found(graph, node, "the condition is false before the first step: the body never runs");
    } else if (trips && *trips <= 1) {
      checkup.found(graph, node, *trips < 1 ? "the body never runs" : "the body runs once");
    }
  });
}

}  // namespace deepjit::doctor
