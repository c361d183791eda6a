#include "passes/fusion/epilogue_entries.h"

#include <charconv>
#include <cmath>
#include <limits>

#include "ops/linear/epilogue.h"
#include "passes/edit.h"

namespace deepjit {

namespace {

std::string text_of(float value) {
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[32];
  return std::string(buffer, std::to_chars(buffer, buffer + sizeof(buffer), value).ptr);
}

std::string call(const std::string& name, float a) { return name + "(" + text_of(a) + ")"; }
std::string call(const std::string& name, float a, float b) { return name + "(" + text_of(a) + "," + text_of(b) + ")"; }

std::optional<EpilogueEntry> unary(const Node& node) {
  const std::string& op = node.op;
  const Attributes& attrs = node.attrs;
  for (const char* plain : {"Relu", "Sigmoid", "Tanh", "Exp", "Abs", "Sqrt", "HardSwish", "Softplus"}) {
    if (op == plain) return EpilogueEntry{op};
  }
  if (op == "Neg") return EpilogueEntry{call("Linear", -1, 0)};
  if (op == "Gelu") return EpilogueEntry{attrs.get_string("approximate", "none") == "tanh" ? "GeluTanh" : "Gelu"};
  if (op == "LeakyRelu") return EpilogueEntry{call(op, attrs.get_float("alpha", 0.01f))};
  if (op == "Elu") return EpilogueEntry{call(op, attrs.get_float("alpha", 1.0f))};
  if (op == "Swish") return EpilogueEntry{call(op, attrs.get_float("alpha", 1.0f))};
  if (op == "HardSigmoid") {
    return EpilogueEntry{call(op, attrs.get_float("alpha", 0.2f), attrs.get_float("beta", 0.5f))};
  }
  return std::nullopt;
}

std::optional<EpilogueEntry> clip(const Node& node) {
  const float infinity = std::numeric_limits<float>::infinity();
  const auto lo = node.input(1) == nullptr ? std::optional<double>(-infinity) : scalar_of(node.input(1));
  const auto hi = node.input(2) == nullptr ? std::optional<double>(infinity) : scalar_of(node.input(2));
  if (!lo || !hi || !(*lo <= *hi)) return std::nullopt;
  return EpilogueEntry{call("Clip", static_cast<float>(*lo), static_cast<float>(*hi))};
}

// v op number, or number op v.
std::optional<EpilogueEntry> with_number(const std::string& op, double number, bool v_first) {
  double scale = 1;
  double shift = 0;
  if (op == "Add") shift = number;
  if (op == "Mul") scale = number;
  if (op == "Sub") scale = v_first ? 1 : -1, shift = v_first ? -number : number;
  if (op == "Div") {
    if (!v_first || number == 0) return std::nullopt;
    scale = 1 / number;
  }
  if (!std::isfinite(scale) || !std::isfinite(shift)) return std::nullopt;
  return EpilogueEntry{call("Linear", static_cast<float>(scale), static_cast<float>(shift))};
}

}  // namespace

std::optional<EpilogueEntry> as_epilogue_entry(const Node& node, const Value* v) {
  if (node.outputs.size() != 1 || node.output() == nullptr || !same_type(node.output(), v)) return std::nullopt;
  if (node.op == "Clip") return node.input(0) == v ? clip(node) : std::nullopt;
  if (node.inputs.size() == 1) return unary(node);
  const bool binary = node.op == "Add" || node.op == "Mul" || node.op == "Sub" || node.op == "Div";
  const bool sum = node.op == "Sum" && node.inputs.size() == 2;
  if (!binary && !sum) return std::nullopt;
  const std::string op = sum ? "Add" : node.op;
  const bool first = node.input(0) == v;
  Value* other = node.input(first ? 1 : 0);
  if (other == v || other == nullptr || !ranked(other)) return std::nullopt;
  if (const auto number = scalar_of(other)) return with_number(op, *number, first);
  if (other->type.shape.rank() > v->type.shape.rank()) return std::nullopt;
  if (!first && (op == "Sub" || op == "Div")) return std::nullopt;
  return EpilogueEntry{op, other};
}

std::optional<std::string> merge_linear(const std::string& first, const std::string& second) {
  const std::vector<EpilogueOp> ops = parse_epilogue({first, second});
  if (ops[0].name != "Linear" || ops[1].name != "Linear" || ops[0].beta != 0 || ops[1].alpha != 1) return std::nullopt;
  return call("Linear", ops[0].alpha, ops[1].beta);
}

}  // namespace deepjit
