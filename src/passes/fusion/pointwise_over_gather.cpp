#include "passes/fusion/pointwise_over_gather.h"

#include <algorithm>

#include "ops/op.h"
#include "passes/edit.h"
#include "passes/evaluate_op.h"

namespace deepjit {

namespace {

constexpr int64_t kMaxTable = int64_t{16} << 20;  // bytes

// Rows gathered at least, taking unknown dims as one.
int64_t rows_gathered(const Value* indices) {
  int64_t rows = 1;
  for (const Dim& d : indices->type.shape.dims()) {
    const auto size = d.evaluate([](const std::string&) { return std::optional<int64_t>(1); });
    rows *= std::max<int64_t>(size.value_or(1), 1);
  }
  return rows;
}

Node* table_gather(Value* value) {
  Node* gather = producer_of(value, "Gather");
  if (gather == nullptr || !gather->input(0)->is_constant() || !ranked(gather->input(1))) return nullptr;
  const Tensor& table = gather->input(0)->constant;
  if (table.dims().rank() != 2 || gather->attrs.get_int("axis", 0) != 0 || table.bytes() > kMaxTable) return nullptr;
  return rows_gathered(gather->input(1)) >= table.dims()[0] ? gather : nullptr;
}

// A constant that is the same for every row, as an operand for the table: a number or a row [D].
std::optional<Tensor> row_operand(const Value* value, int64_t width, int rank) {
  if (value == nullptr || !value->is_constant()) return std::nullopt;
  const Tensor& tensor = value->constant;
  if (tensor.dims().rank() > rank) return std::nullopt;
  if (tensor.count() == 1) return tensor.reshaped({});
  if (tensor.count() != width || tensor.dims().back() != width) return std::nullopt;
  return tensor.reshaped(Dims{width});
}

bool move(Node* node) {
  const OpDef& def = find_op(node->op);
  if (!def.pointwise || !def.deterministic || node->outputs.size() != 1) return false;
  Node* gather = nullptr;
  for (Value* v : node->inputs) {
    Node* found = v == nullptr ? nullptr : table_gather(v);
    if (found != nullptr && gather != nullptr && found != gather) return false;
    if (found != nullptr) gather = found;
  }
  if (gather == nullptr || only_user(gather->output()) == nullptr) return false;
  const Value* rows = gather->output();
  if (!ranked(rows) || !ranked(node->output()) || !(rows->type.shape == node->output()->type.shape)) return false;
  const Tensor& table = gather->input(0)->constant;
  std::vector<Tensor> inputs;
  for (const Value* v : node->inputs) {
    if (v == nullptr) {
      inputs.emplace_back();
    } else if (v == rows) {
      inputs.push_back(table);
    } else if (auto operand = row_operand(v, table.dims()[1], rows->type.shape.rank())) {
      inputs.push_back(*operand);
    } else {
      return false;
    }
  }
  Tensor changed;
  try {
    changed = evaluate_op(def, node->attrs, inputs, {true})[0];
  } catch (const Error&) {
    return false;
  }
  if (!(changed.dims() == table.dims()) || changed.dtype() != node->output()->type.dtype) return false;
  Value* result = emit(node, "Gather", {emit_constant(node, changed), gather->input(1)}, gather->attrs, gather);
  return replace_node(node, result);
}

}  // namespace

bool move_pointwise_over_gather(Graph& graph) {
  bool changed = false;
  for (Node* node : graph.snapshot()) {
    if (node->bodies.empty()) changed = move(node) || changed;
  }
  return changed;
}

}  // namespace deepjit
