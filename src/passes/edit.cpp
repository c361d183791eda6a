#include "passes/edit.h"

#include <algorithm>

#include "base/small_types.h"
#include "base/visit.h"
#include "graph/infer.h"

namespace deepjit {

Node* producer_of(const Value* value, std::string_view op) {
  return value != nullptr && value->producer != nullptr && value->producer->op == op ? value->producer : nullptr;
}

Node* only_user(const Value* value) {
  if (value == nullptr || value->users.size() != 1 || Graph::is_output(value)) return nullptr;
  return value->users[0]->graph == value->graph ? value->users[0] : nullptr;
}

namespace {

bool numeric(const Value* value) {
  if (value == nullptr || !value->is_constant()) return false;
  const DType dtype = value->constant.dtype();
  return !is_small_float(dtype) && (is_float(dtype) || is_integer(dtype) || dtype == DType::BOOL);
}

}  // namespace

std::optional<double> scalar_of(const Value* value) {
  if (!numeric(value) || value->constant.count() != 1) return std::nullopt;
  return value->constant.to_f64()[0];
}

bool is_scalar(const Value* value, double expected) {
  const auto scalar = scalar_of(value);
  return scalar && *scalar == expected;
}

bool all_equal(const Value* value, double expected) {
  if (!numeric(value) || value->constant.count() == 0) return false;
  if (value->constant.dtype() == DType::BOOL) {
    const std::vector<double> elements = value->constant.to_f64();
    return std::all_of(elements.begin(), elements.end(), [&](double v) { return v == expected; });
  }
  bool equal = true;
  visit_numeric(value->constant.dtype(), "constant", [&]<typename T>() {
    const T* data = value->constant.as<T>();
    const int64_t n = value->constant.count();
    for (int64_t i = 0; i < n && equal; ++i) equal = static_cast<double>(load_as_compute(data[i])) == expected;
  });
  return equal;
}

std::optional<std::vector<int64_t>> known_ints(const Value* value) {
  if (value == nullptr) return std::nullopt;
  if (value->is_constant()) {
    if (!is_integer(value->constant.dtype()) && value->constant.dtype() != DType::BOOL) return std::nullopt;
    return value->constant.to_i64();
  }
  if (!value->values) return std::nullopt;
  std::vector<int64_t> out;
  for (const Dim& dim : *value->values) {
    if (!dim.is_const()) return std::nullopt;
    out.push_back(dim.value());
  }
  return out;
}

bool ranked(const Value* value) { return value != nullptr && value->type.shape.ranked(); }

bool is_16_bit(const Value* value) {
  return ranked(value) && (value->type.dtype == DType::FLOAT16 || value->type.dtype == DType::BFLOAT16);
}

bool same_type(const Value* a, const Value* b) { return ranked(a) && ranked(b) && a->type == b->type; }

Value* emit(Node* position, const std::string& op, std::vector<Value*> inputs, Attributes attrs, const Node* like) {
  Value* out = position->graph->insert(position, op, std::move(inputs), std::move(attrs), like);
  infer_node(*out->producer);
  return out;
}

Value* emit_constant(const Node* near, Tensor tensor, const std::string& name) {
  return near->graph->add_constant(std::move(tensor), name);
}

Value* emit_ints(const Node* near, const std::vector<int64_t>& values) {
  return emit_constant(near, Tensor::vector_i64(values));
}

Value* emit_scalar(const Node* near, DType dtype, double value, int rank) {
  Tensor tensor(dtype, Dims::filled(rank, 1));
  visit_numeric(dtype, "scalar",
                [&]<typename T>() { tensor.as<T>()[0] = static_cast<T>(static_cast<compute_t<T>>(value)); });
  return emit_constant(near, std::move(tensor));
}

std::optional<std::vector<int64_t>> reshape_target(const Shape& from, const std::vector<Dim>& to) {
  std::vector<int64_t> target;
  bool solved = false;
  for (size_t i = 0; i < to.size(); ++i) {
    if (to[i].is_const()) {
      if (to[i].value() <= 0) return std::nullopt;
      target.push_back(to[i].value());
    } else if (from.ranked() && static_cast<int>(i) < from.rank() && from[static_cast<int>(i)] == to[i]) {
      target.push_back(0);
    } else if (!solved) {
      solved = true;
      target.push_back(-1);
    } else {
      return std::nullopt;
    }
  }
  return target;
}

Value* emit_reshape(Node* position, Value* x, const std::vector<Dim>& to, const Node* like) {
  const auto target = reshape_target(x->type.shape, to);
  if (!target) return nullptr;
  Value* out = emit(position, "Reshape", {x, emit_ints(position, *target)}, {}, like);
  out->type.shape = Shape(to);  // inference may only see "what is left"
  return out;
}

namespace {

bool is_root_output(const Value* value) {
  if (value->graph->parent() != nullptr) return false;
  const std::vector<Value*>& outputs = value->graph->outputs;
  return std::find(outputs.begin(), outputs.end(), value) != outputs.end();
}

bool is_unknown(const Dim& dim) { return dim.is_symbol() && dim.to_string()[0] == '?'; }

// `to` learns what `from` knew.
void refine(const Value* from, Value* to) {
  check_internal(from->type.dtype == to->type.dtype, "a value is replaced by one of another type: " + from->name);
  if (!to->values && !to->is_constant()) to->values = from->values;
  const Shape& known = from->type.shape;
  Shape& shape = to->type.shape;
  if (!known.ranked() || to->is_constant()) return;
  if (!shape.ranked()) {
    shape = known;
    return;
  }
  check_internal(shape.rank() == known.rank(), "a value is replaced by one of another rank: " + from->name);
  for (int i = 0; i < shape.rank(); ++i) {
    if (!shape[i].is_const() && (known[i].is_const() || is_unknown(shape[i]))) shape[i] = known[i];
  }
}

}  // namespace

bool replaceable(const Value* from, const Value* to) {
  if (!is_root_output(from)) return true;
  return to->graph == from->graph && !to->is_input() && !is_root_output(to);
}

void replace_value(Value* from, Value* to) {
  if (from == to) return;
  check_internal(replaceable(from, to), "output " + from->name + " would lose its name");
  if (is_root_output(from)) std::swap(from->name, to->name);
  refine(from, to);
  Graph::replace_all_uses(from, to);
}

bool replace_node(Node* node, Value* to) {
  if (!replaceable(node->outputs[0], to)) return false;
  replace_value(node->outputs[0], to);
  node->graph->erase(node);
  return true;
}

}  // namespace deepjit
