// DJ302: what float16 cannot hold, in a model that computes in it or is going to (trtexec --fp16).
#include <fmt/format.h>

#include <cmath>
#include <set>

#include "doctor/checkup.h"

namespace deepjit::doctor {

namespace {

bool in_half(const ModelView& model, const GraphView& graph, const std::string& value) {
  return model.type(graph, value).dtype == DType::FLOAT16;
}

bool builds_half(const Options& options) {
  const auto& trt = options.settings.tensorrt;
  return trt && (trt->fp16 || trt->best) && !trt->strongly_typed;
}

// The largest finite magnitude; infinite when an element is.
double largest(const Tensor& t) {
  double most = 0;
  for (double v : t.to_f64()) {
    if (!std::isnan(v)) most = std::max(most, std::abs(v));
  }
  return most;
}

// A float32 constant that becomes infinite when it is cast to float16.
void check_cast(Checkup& checkup, const GraphView& graph, const onnx::NodeProto& node) {
  if (int_attribute(node, "to", 0) != static_cast<int64_t>(DType::FLOAT16)) return;
  const Tensor* constant = checkup.model.constant(graph, input_of(node, 0));
  if (constant == nullptr || (constant->dtype() != DType::FLOAT32 && constant->dtype() != DType::FLOAT64)) return;
  const double most = largest(*constant);
  if (most < 65520 || std::isinf(most)) return;  // 65520 is the first that rounds to infinity
  checkup.found(
      graph, node,
      fmt::format("the constant \"{}\" reaches {:.4g}; cast to float16 it is infinite", input_of(node, 0), most));
}

void check_arithmetic(Checkup& checkup, const GraphView& graph, const onnx::NodeProto& node) {
  const bool half = in_half(checkup.model, graph, output_of(node, 0));
  const bool later = !half && builds_half(checkup.options);
  if (!half && !later) return;
  for (const std::string& input : node.input()) {
    const Tensor* constant = checkup.model.constant(graph, input);
    if (constant == nullptr || constant->count() > (1 << 20) || !is_float(constant->dtype())) continue;
    if (half != (constant->dtype() == DType::FLOAT16) || dtype_size(constant->dtype()) < 2) continue;
    const double most = largest(*constant);
    // An infinite mask that is added is a habit that works; multiplied, zero becomes NaN.
    const bool times = node.op_type() == "Mul" || node.op_type() == "Div";
    if (std::isinf(most) && half && times) {
      checkup.found(graph, node, "multiplies by \"" + input + "\", which is infinite in float16: zero becomes NaN");
      return;
    }
    if (later && std::isfinite(most) && most >= 65520) {
      checkup.found(graph, node, fmt::format("the constant \"{}\" reaches {:.4g}, float16 ends at 65504", input, most));
      return;
    }
  }
}

// A square that is averaged or summed: above 256 the square alone overflows.
void check_square(Checkup& checkup, const GraphView& graph, const onnx::NodeProto& node) {
  const ModelView& model = checkup.model;
  if (!in_half(model, graph, output_of(node, 0)) && !builds_half(checkup.options)) return;
  const onnx::NodeProto* before = graph.producer(input_of(node, 0));
  bool square = false;
  if (is(before, "Pow")) square = model.scalar(graph, input_of(*before, 1)) == 2.0;
  if (is(before, "Mul")) square = before->input_size() == 2 && input_of(*before, 0) == input_of(*before, 1);
  if (!square) return;
  Finding& finding = checkup.found(graph, node, "averages squares in float16: they overflow above 256");
  Checkup::costs(finding, {before, &node});
}

// exp(x) overflows at 11.1; with the maximum taken off it cannot.
void check_exponential(Checkup& checkup, const GraphView& graph, const onnx::NodeProto& node) {
  if (!in_half(checkup.model, graph, output_of(node, 0))) return;
  const auto& readers = graph.readers(output_of(node, 0));
  const bool summed = std::any_of(readers.begin(), readers.end(), [](const auto* r) { return is(r, "ReduceSum"); });
  const onnx::NodeProto* before = graph.producer(input_of(node, 0));
  const onnx::NodeProto* taken = is(before, "Sub") ? graph.producer(input_of(*before, 1)) : nullptr;
  if (!summed || is(taken, "ReduceMax")) return;
  checkup.found(graph, node, "sums exponentials in float16 without taking the maximum off: they overflow above 11");
}

// An epsilon that rounded to zero protects nothing.
void check_epsilon(Checkup& checkup, const GraphView& graph, const onnx::NodeProto& node) {
  const onnx::NodeProto* next = graph.only_reader(output_of(node, 0));
  if (!is(next, "Sqrt") && !is(next, "Reciprocal") && !is(next, "Log")) return;
  const bool half = in_half(checkup.model, graph, output_of(node, 0));
  if (!half && !builds_half(checkup.options)) return;
  for (const std::string& input : node.input()) {
    const auto epsilon = checkup.model.scalar(graph, input);
    if (!epsilon || std::abs(*epsilon) >= 2.98e-8 || (*epsilon == 0 && !half)) continue;
    checkup.found(graph, node,
                  fmt::format("the epsilon \"{}\" is {:.4g}: in float16 that is 0, and {} of 0 follows", input,
                              *epsilon, next->op_type()));
  }
}

}  // namespace

void check_half_overflow(Checkup& checkup) {
  static const std::set<std::string> arithmetic = {"Add", "Sub", "Mul", "Div", "Where", "Max", "Min"};
  checkup.each_node([&](const GraphView& graph, const onnx::NodeProto& node) {
    if (!default_domain(node) || node.output_size() == 0 || node.input_size() == 0) return;
    const std::string& op = node.op_type();
    if (op == "Cast") check_cast(checkup, graph, node);
    if (arithmetic.count(op) != 0) check_arithmetic(checkup, graph, node);
    if (op == "Add") check_epsilon(checkup, graph, node);
    if (op == "ReduceMean" || op == "ReduceSum") check_square(checkup, graph, node);
    if (op == "Exp") check_exponential(checkup, graph, node);
  });
}

}  // namespace deepjit::doctor
