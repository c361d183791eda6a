#include "passes/fusion/one_hot_to_gather.h"

#include <cmath>
#include <cstring>

#include "base/visit.h"
#include "passes/edit.h"

namespace deepjit {

namespace {

// A constant [1,..,1,V] holding 0, 1, ... V-1.
bool is_class_row(const Value* value, int rank, int64_t classes) {
  if (value == nullptr || !value->is_constant() || !is_integer(value->constant.dtype())) return false;
  const Dims& dims = value->constant.dims();
  if (dims.rank() < 1 || dims.rank() > rank || dims.back() != classes || dims.count() != classes) return false;
  const std::vector<int64_t> elements = value->constant.to_i64();
  for (size_t i = 0; i < elements.size(); ++i) {
    if (elements[i] != static_cast<int64_t>(i)) return false;
  }
  return true;
}

bool finite(const Tensor& tensor) {
  bool all = true;
  visit_float(tensor.dtype(), "table", [&]<typename T>() {
    for (int64_t i = 0; i < tensor.count() && all; ++i) {
      all = std::isfinite(static_cast<double>(load_as_compute(tensor.as<T>()[i])));
    }
  });
  return all;
}

// The table with a row of zeros behind it.
Tensor with_zero_row(const Tensor& table) {
  Tensor out(table.dtype(), Dims{table.dims()[0] + 1, table.dims()[1]});
  std::memset(out.view().data, 0, static_cast<size_t>(out.bytes()));
  std::memcpy(out.view().data, table.view().data, static_cast<size_t>(table.bytes()));
  return out;
}

// Equal(ids, row) in either order: the ids as [..., 1] or, when spread by an Expand, before it.
Value* match_ids(const Node* equal, int64_t classes) {
  if (equal == nullptr || !ranked(equal->output())) return nullptr;
  const int rank = equal->output()->type.shape.rank();
  for (size_t i = 0; i < 2; ++i) {
    if (!is_class_row(equal->input(1 - i), rank, classes)) continue;
    Value* ids = equal->input(i);
    for (const Node* expand = producer_of(ids, "Expand"); expand != nullptr; expand = producer_of(ids, "Expand")) {
      ids = expand->input(0);
    }
    if (!ranked(ids) || ids->type.shape.rank() != rank || !is_integer(ids->type.dtype)) continue;
    const Shape& shape = ids->type.shape;
    bool plain = shape[rank - 1] == 1;
    for (int k = 0; k + 1 < rank; ++k) plain = plain && shape[k] == equal->output()->type.shape[k];
    if (plain) return ids;
  }
  return nullptr;
}

bool rewrite(Node* node) {
  if (node->op != "MatMul" || !ranked(node->output())) return false;
  const Value* table = node->input(1);
  if (!table->is_constant() || table->constant.dims().rank() != 2 || !is_float(table->constant.dtype())) return false;
  if (dtype_size(table->constant.dtype()) < 2) return false;
  const Node* cast = producer_of(node->input(0), "Cast");
  const Node* equal = cast == nullptr ? nullptr : producer_of(cast->input(0), "Equal");
  const int64_t classes = table->constant.dims()[0];
  Value* ids = match_ids(equal, classes);
  if (ids == nullptr || !finite(table->constant)) return false;
  std::vector<Dim> dims = ids->type.shape.dims();
  dims.pop_back();
  Value* flat = emit_reshape(node, ids, dims, node);
  if (flat == nullptr) return false;
  const DType dtype = ids->type.dtype;
  Attributes to_int64;
  to_int64.set("to", static_cast<int64_t>(DType::INT64));
  if (dtype != DType::INT64) flat = emit(node, "Cast", {flat}, to_int64, node);
  Value* low = emit(node, "Less", {flat, emit_scalar(node, DType::INT64, 0)}, {}, node);
  Value* limit = emit_scalar(node, DType::INT64, static_cast<double>(classes));
  // A negative id would count from the end.
  Value* known = emit(node, "Where", {low, limit, flat}, {}, node);
  Value* index = emit(node, "Min", {known, limit}, {}, node);
  Attributes attrs;
  attrs.set("axis", int64_t{0});
  Value* rows = emit(node, "Gather", {emit_constant(node, with_zero_row(table->constant)), index}, attrs, node);
  return replace_node(node, rows);
}

}  // namespace

bool one_hot_to_gather(Graph& graph) {
  bool changed = false;
  for (Node* node : graph.snapshot()) changed = rewrite(node) || changed;
  return changed;
}

}  // namespace deepjit
