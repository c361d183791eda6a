// LayerNormalization and Softmax of fuse_patterns.
#include <cmath>

#include "passes/edit.h"
#include "passes/fusion/fuse_patterns.h"
#include "passes/fusion/product.h"

namespace deepjit {

namespace {

// A reduction that keeps its axes, over exactly one axis: that axis.
std::optional<int> single_axis(const Node* node) {
  if (node == nullptr || !ranked(node->input(0)) || node->attrs.get_int("keepdims", 1) == 0) return std::nullopt;
  const int rank = node->input(0)->type.shape.rank();
  const auto axes = known_ints(node->input(1));
  if (!axes || axes->size() != 1 || rank == 0) return std::nullopt;
  return normalize_axis((*axes)[0], rank);
}

bool reduces_last(const Node* node) {
  const auto axis = single_axis(node);
  return axis && *axis == node->input(0)->type.shape.rank() - 1;
}

// d * d or pow(d, 2).
bool is_square(const Value* value, const Value* d) {
  const Node* node = value->producer;
  if (node == nullptr) return false;
  if (node->op == "Pow") return node->input(0) == d && is_scalar(node->input(1), 2);
  return node->op == "Mul" && node->input(0) == d && node->input(1) == d;
}

struct Normalized {
  const Value* x = nullptr;
  double epsilon = 0;
};

// sqrt(mean(d^2) + epsilon) where d = x - mean(x).
Normalized match_deviation(const Value* root, const Value* d) {
  const Node* sqrt = producer_of(root, "Sqrt");
  if (sqrt == nullptr) return {};
  Normalized out;
  const Value* variance = match_add_number(sqrt->input(0), &out.epsilon);
  const Node* mean_square = producer_of(variance, "ReduceMean");
  if (!reduces_last(mean_square) || !is_square(mean_square->input(0), d)) return {};
  const Node* sub = producer_of(d, "Sub");
  const Node* mean = sub == nullptr ? nullptr : producer_of(sub->input(1), "ReduceMean");
  if (!reduces_last(mean) || mean->input(0) != sub->input(0)) return {};
  out.x = sub->input(0);
  return out;
}

// d / deviation or d * reciprocal(deviation).
Normalized match_normalized(const Node* node) {
  if (node->op == "Div") return match_deviation(node->input(1), node->input(0));
  if (node->op != "Mul") return {};
  for (size_t i = 0; i < 2; ++i) {
    const Node* reciprocal = producer_of(node->input(i), "Reciprocal");
    if (reciprocal != nullptr) return match_deviation(reciprocal->input(0), node->input(1 - i));
  }
  return {};
}

// A constant [D], [1,..,1,D] or of one element as a tensor [D].
std::optional<Tensor> as_last_dim(const Value* value, int rank, int64_t size, DType dtype) {
  if (value == nullptr || !value->is_constant() || value->constant.dtype() != dtype) return std::nullopt;
  const Dims& dims = value->constant.dims();
  if (dims.rank() > rank) return std::nullopt;
  for (int i = 0; i + 1 < dims.rank(); ++i) {
    if (dims[i] != 1) return std::nullopt;
  }
  if (dims.count() == size) return value->constant.reshaped(Dims{size});
  if (dims.count() != 1) return std::nullopt;
  Tensor out(dtype, Dims{size});
  const auto bytes = static_cast<size_t>(dtype_size(dtype));
  for (int64_t i = 0; i < size; ++i) {
    std::memcpy(out.as<char>() + static_cast<size_t>(i) * bytes, value->constant.view().data, bytes);
  }
  return out;
}

bool float_below_64(DType dtype) {
  return dtype == DType::FLOAT32 || dtype == DType::FLOAT16 || dtype == DType::BFLOAT16;
}

Value* layer_normalization(Node* at, const Normalized& found, Value* scale, Value* bias) {
  Attributes attrs;
  attrs.set("axis", int64_t{-1});
  attrs.set("epsilon", static_cast<float>(found.epsilon));
  std::vector<Value*> inputs = {const_cast<Value*>(found.x), scale};
  if (bias != nullptr) inputs.push_back(bias);
  return emit(at, "LayerNormalization", inputs, std::move(attrs), at);
}

Value* match_layer_norm_core(Node* node) {
  const Normalized found = match_normalized(node);
  if (found.x == nullptr || !same_type(found.x, node->output()) || !float_below_64(found.x->type.dtype)) return nullptr;
  const Shape& shape = found.x->type.shape;
  const auto size = shape[shape.rank() - 1].as_const();
  if (!size) return nullptr;
  Value* one = emit_scalar(node, found.x->type.dtype, 1);
  const auto ones = as_last_dim(one, shape.rank(), *size, found.x->type.dtype);
  return layer_normalization(node, found, emit_constant(node, *ones), nullptr);
}

// LayerNormalization with scale one * c: the scale; + c: the bias.
Value* match_layer_norm_scale(Node* node) {
  const bool mul = node->op == "Mul";
  if (!mul && node->op != "Add") return nullptr;
  for (size_t i = 0; i < 2; ++i) {
    Node* norm = producer_of(node->input(i), "LayerNormalization");
    if (norm == nullptr || norm->outputs.size() != 1 || only_user(norm->output()) != node) continue;
    const Value* x = norm->input(0);
    if (norm->input(2) != nullptr || (mul && !all_equal(norm->input(1), 1)) || !same_type(x, node->output())) continue;
    if (norm->attrs.get_int("axis", -1) != -1 || norm->input(1)->type.dtype != x->type.dtype) continue;
    const Shape& shape = x->type.shape;
    const auto size = shape[shape.rank() - 1].as_const();
    if (!size) continue;
    const auto vector = as_last_dim(node->input(1 - i), shape.rank(), *size, x->type.dtype);
    if (!vector) continue;
    Value* constant = emit_constant(node, *vector);
    const Normalized found{x, norm->attrs.get_float("epsilon", 1e-5f)};
    return mul ? layer_normalization(node, found, constant, nullptr)
               : layer_normalization(node, found, norm->input(1), constant);
  }
  return nullptr;
}

// exp(x - max(x)) / sum(exp(x - max(x))).
Value* match_softmax(Node* node) {
  if (node->op != "Div") return nullptr;
  const Node* exp = producer_of(node->input(0), "Exp");
  const Node* sum = producer_of(node->input(1), "ReduceSum");
  const auto axis = single_axis(sum);
  if (exp == nullptr || !axis || sum->input(0) != exp->output()) return nullptr;
  const Node* sub = producer_of(exp->input(0), "Sub");
  const Node* max = sub == nullptr ? nullptr : producer_of(sub->input(1), "ReduceMax");
  const auto max_axis = single_axis(max);
  if (!max_axis || *max_axis != *axis || max->input(0) != sub->input(0)) return nullptr;
  Value* x = sub->input(0);
  if (!same_type(x, node->output())) return nullptr;
  Attributes attrs;
  attrs.set("axis", int64_t{*axis});
  return emit(node, "Softmax", {x}, std::move(attrs), node);
}

}  // namespace

Value* match_normalization(Node* node) {
  if (!is_float(node->output()->type.dtype)) return nullptr;
  if (Value* out = match_layer_norm_core(node)) return out;
  if (Value* out = match_layer_norm_scale(node)) return out;
  return match_softmax(node);
}

}  // namespace deepjit
