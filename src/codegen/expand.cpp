#include "codegen/expand.h"

namespace deepjit {

std::string need_float(const OpView& op) {
  const DType t = compute_type(op.inputs[0].dtype);
  if (t == DType::FLOAT32 || t == DType::FLOAT64) return "";
  return op.op + " on " + std::string(dtype_name(op.inputs[0].dtype)) + " is not generated";
}

const ExpandRule* find_rule(const std::string& op) {
  static const RuleTable table = [] {
    RuleTable rules;
    add_pointwise_rules(rules);
    add_row_rules(rules);
    return rules;
  }();
  const auto found = table.find(op);
  return found == table.end() ? nullptr : &found->second;
}

std::string why_not_expand(const OpView& op) {
  const ExpandRule* rule = find_rule(op.op);
  if (rule == nullptr) return op.op + " is not generated";
  if (!op.has(0)) return op.op + " without its first input is not generated";
  for (const auto* list : {&op.inputs, &op.outputs}) {
    for (const TensorType& type : *list) {
      if (type.dtype == DType::UNDEFINED) continue;
      if (!type.shape.ranked()) return "the rank of an operand is not known";
    }
  }
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    const bool is_axes = rule->reduced != nullptr && rule->drops_row && i == 1;
    if (op.has(i) && !is_axes && compute_type(op.inputs[i].dtype) == DType::UNDEFINED) {
      return op.op + " on " + std::string(dtype_name(op.inputs[i].dtype)) + " is not generated";
    }
  }
  if (compute_type(op.outputs[0].dtype) == DType::UNDEFINED) {
    return op.op + " to " + std::string(dtype_name(op.outputs[0].dtype)) + " is not generated";
  }
  return rule->refuse != nullptr ? rule->refuse(op) : "";
}

}  // namespace deepjit
