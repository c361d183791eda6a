// What each op computes, as kernel IR: one rule an op.
//
// A rule says how the op's operands lie over the box (elementwise with broadcast, or over a reduced row) and
// writes the instructions of its result. The same rules serve every emitter. can_expand() is the single
// answer to "may this op become part of a generated kernel, and if not, why".
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/attributes.h"
#include "base/dim.h"
#include "codegen/ir_builder.h"
#include "codegen/refusal.h"

namespace deepjit {

// An op as the generator sees it, whether it stands in a graph or in a program.
struct OpView {
  std::string op;
  const Attributes* attrs = nullptr;
  std::vector<TensorType> inputs;  // dtype UNDEFINED: omitted
  std::vector<TensorType> outputs;
  std::vector<const Tensor*> constants;  // per input, nullptr when it is no constant

  bool has(size_t i) const { return i < inputs.size() && inputs[i].dtype != DType::UNDEFINED; }
};

// One expansion at work: the operands as instructions of the builder.
struct Expansion {
  IrBuilder& b;
  const OpView& op;
  std::vector<IrBuilder::Ref> inputs;                   // -1: omitted
  std::function<IrBuilder::Ref()> row_index = nullptr;  // of ops over a row: the place in it, INT64

  IrBuilder::Ref in(size_t i = 0) const { return inputs[i]; }
  bool has(size_t i) const { return i < inputs.size() && inputs[i] >= 0; }
  float attr(const char* name, float fallback) const { return op.attrs->get_float(name, fallback); }
};

struct ExpandRule {
  // The result of output 0.
  std::function<IrBuilder::Ref(Expansion&)> expand;
  // Dims of input 0 that are reduced; null for elementwise ops.
  std::function<std::vector<int>(const OpView&)> reduced;
  bool drops_row = false;  // the result has no (or size 1) reduced dims; otherwise it is as large as input 0
  // The output dim where input i's first dim lies; null: operands broadcast from the right.
  std::function<int(const OpView&, size_t input)> first_dim;
  // A further condition: why this node cannot be expanded, if so.
  std::function<Refusal(const OpView&)> refuse;
};

// The rule of an op, or nullptr.
const ExpandRule* find_rule(const std::string& op);

// Why the op cannot be part of a generated kernel; empty when it can.
Refusal why_not_expand(const OpView& op);

// That the op is not generated "on" or "to" a type.
Refusal refuse_type(const OpView& op, const char* preposition, DType type);

// A condition that most rules share: input 0 computes in a floating-point type.
Refusal need_float(const OpView& op);

// The families of rules, one a file.
using RuleTable = std::map<std::string, ExpandRule>;
void add_pointwise_rules(RuleTable& table);  // expand_pointwise.cpp
void add_row_rules(RuleTable& table);        // expand_row.cpp: reductions, softmax, norms
void add_quantize_rules(RuleTable& table);   // expand_quantize.cpp

}  // namespace deepjit
