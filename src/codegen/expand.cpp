#include "codegen/expand.h"

namespace deepjit {

Refusal refuse_type(const OpView& op, const char* preposition, DType type) {
  const std::string name(dtype_name(type));
  const bool narrow = type == DType::INT8 || type == DType::UINT8 || type == DType::INT16 || type == DType::UINT16;
  return {Why::TYPE_NOT_GENERATED, op.op + preposition + name + " is not generated",
          narrow ? "compute in int32 or float32: Cast before " + op.op + " and back behind it" : ""};
}

Refusal need_float(const OpView& op) {
  const DType t = compute_type(op.inputs[0].dtype);
  if (t == DType::FLOAT32 || t == DType::FLOAT64) return {};
  return refuse_type(op, " on ", op.inputs[0].dtype);
}

const ExpandRule* find_rule(const std::string& op) {
  static const RuleTable table = [] {
    RuleTable rules;
    add_pointwise_rules(rules);
    add_row_rules(rules);
    add_quantize_rules(rules);
    return rules;
  }();
  const auto found = table.find(op);
  return found == table.end() ? nullptr : &found->second;
}

Refusal why_not_expand(const OpView& op) {
  const ExpandRule* rule = find_rule(op.op);
  if (rule == nullptr) return {Why::OP_NOT_GENERATED, op.op + " is not generated"};
  if (!op.has(0)) return {Why::OP_NOT_GENERATED, op.op + " without its first input is not generated"};
  for (const auto* list : {&op.inputs, &op.outputs}) {
    for (const TensorType& type : *list) {
      if (type.dtype == DType::UNDEFINED) continue;
      if (!type.shape.ranked()) return {Why::UNKNOWN_RANK, "the rank of an operand of " + op.op + " is not known"};
    }
  }
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    const bool is_axes = rule->reduced != nullptr && rule->drops_row && i == 1;
    if (op.has(i) && !is_axes && compute_type(op.inputs[i].dtype) == DType::UNDEFINED) {
      return refuse_type(op, " on ", op.inputs[i].dtype);
    }
  }
  if (compute_type(op.outputs[0].dtype) == DType::UNDEFINED) {
    return refuse_type(op, " to ", op.outputs[0].dtype);
  }
  return rule->refuse != nullptr ? rule->refuse(op) : Refusal{};
}

}  // namespace deepjit
