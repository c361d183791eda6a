// The activations of fuse_patterns.
#include <algorithm>
#include <cmath>
#include <limits>

#include "passes/edit.h"
#include "passes/fusion/fuse_patterns.h"
#include "passes/fusion/product.h"

namespace deepjit {

namespace {

bool computes_in_float(const Value* value) {
  const DType t = value->type.dtype;
  return t == DType::FLOAT32 || t == DType::FLOAT16 || t == DType::BFLOAT16 || t == DType::FLOAT64;
}

Value* mutable_value(const Value* value) { return const_cast<Value*>(value); }

Value* fuse(Node* node, const std::string& op, const Value* x, Attributes attrs = {}) {
  return emit(node, op, {mutable_value(x)}, std::move(attrs), node);
}

// clip(x + 3, 0, 6) -> x.
const Value* match_clip_6(const Value* value) {
  const Node* clip = producer_of(value, "Clip");
  if (clip == nullptr || !is_scalar(clip->input(1), 0) || !is_scalar(clip->input(2), 6)) return nullptr;
  double number = 0;
  const Value* x = match_add_number(clip->input(0), &number);
  return number == 3 ? x : nullptr;
}

// clip(x/6 + 0.5, 0, 1) -> x.
const Value* match_hard_sigmoid(const Value* value) {
  const Node* node = producer_of(value, "HardSigmoid");
  if (node == nullptr || !near(node->attrs.get_float("alpha", 0.2f), 1.0 / 6) ||
      node->attrs.get_float("beta", 0.5f) != 0.5f) {
    return nullptr;
  }
  return node->input(0);
}

// The product is `x` times something made of x.
bool consists_of(const Product& p, const Value* x, const Value* part) {
  return p.factors.size() == 2 && x != nullptr &&
         ((p.factors[0] == x && p.factors[1] == part) || (p.factors[1] == x && p.factors[0] == part));
}

Value* match_hard_swish(Node* node, const Product& p) {
  for (const Value* part : p.factors) {
    const Value* x = match_clip_6(part);
    double expected = 1.0 / 6;
    if (x == nullptr) {
      x = match_hard_sigmoid(part);
      expected = 1;
    }
    if (consists_of(p, x, part) && near(p.coefficient, expected) && same_type(x, node->output())) {
      return fuse(node, "HardSwish", x);
    }
  }
  return nullptr;
}

// x * sigmoid(a * x).
Value* match_swish(Node* node, const Product& p) {
  if (p.coefficient != 1) return nullptr;
  for (const Value* part : p.factors) {
    const Node* sigmoid = producer_of(part, "Sigmoid");
    if (sigmoid == nullptr || p.factors.size() != 2) continue;
    const Value* x = p.factors[part == p.factors[0] ? 1 : 0];
    double alpha = 1;
    if (sigmoid->input(0) != x) {
      const Product inside = product_of(sigmoid->input(0), x);
      if (inside.factors.size() != 1 || inside.factors[0] != x) continue;
      alpha = inside.coefficient;
    }
    if (!same_type(x, node->output())) continue;
    Attributes attrs;
    attrs.set("alpha", static_cast<float>(alpha));
    return fuse(node, "Swish", x, std::move(attrs));
  }
  return nullptr;
}

// erf(x / sqrt(2)).
bool is_gelu_erf(const Value* value, const Value* x) {
  const Node* erf = producer_of(value, "Erf");
  if (erf == nullptr || erf->input(0) == x) return false;
  const Product p = product_of(erf->input(0), x);
  return p.factors.size() == 1 && p.factors[0] == x && near(p.coefficient, std::sqrt(0.5));
}

// x cubed, times a number.
bool is_cube(const Value* value, const Value* x, double coefficient) {
  const Product p = product_of(value, x);
  if (!near(p.coefficient, coefficient)) return false;
  if (p.factors.size() == 1) {
    const Node* pow = producer_of(p.factors[0], "Pow");
    return pow != nullptr && pow->input(0) == x && is_scalar(pow->input(1), 3);
  }
  size_t power = 0;
  for (const Value* f : p.factors) {
    const Node* pow = producer_of(f, "Pow");
    if (f == x) {
      power += 1;
    } else if (pow != nullptr && pow->input(0) == x && is_scalar(pow->input(1), 2)) {
      power += 2;
    } else {
      const Node* square = producer_of(f, "Mul");
      if (square == nullptr || square->input(0) != x || square->input(1) != x) return false;
      power += 2;
    }
  }
  return power == 3;
}

// tanh(sqrt(2/pi) * (x + 0.044715 * x^3)).
bool is_gelu_tanh(const Value* value, const Value* x) {
  const Node* tanh = producer_of(value, "Tanh");
  if (tanh == nullptr) return false;
  const Product p = product_of(tanh->input(0));
  if (p.factors.size() != 1 || !near(p.coefficient, 0.7978845608028654)) return false;
  const Node* sum = producer_of(p.factors[0], "Add");
  const Value* cube = sum == nullptr ? nullptr : other_term(sum, x);
  return cube != nullptr && is_cube(cube, x, 0.044715);
}

// 0.5 * x * (1 + erf or tanh).
Value* match_gelu(Node* node, const Product& p) {
  if (p.factors.size() != 2 || !near(p.coefficient, 0.5)) return nullptr;
  for (size_t i = 0; i < 2; ++i) {
    const Value* x = p.factors[1 - i];
    double one = 0;
    const Value* inner = match_add_number(p.factors[i], &one);
    if (inner == nullptr || one != 1 || !same_type(x, node->output())) continue;
    const bool tanh = is_gelu_tanh(inner, x);
    if (!tanh && !is_gelu_erf(inner, x)) continue;
    Attributes attrs;
    if (tanh) attrs.set("approximate", std::string("tanh"));
    return fuse(node, "Gelu", x, std::move(attrs));
  }
  return nullptr;
}

// Max(x, lo) and Min(x, hi) with numbers, and a Clip of a Clip. The bound that is applied last wins, as in
// Clip itself, so an inner Max goes into an outer Min always, the other way only when lo <= hi.
Value* match_clip(Node* node) {
  const bool max = node->op == "Max";
  if (!max && node->op != "Min") return nullptr;
  if (node->inputs.size() != 2) return nullptr;
  for (size_t i = 0; i < 2; ++i) {
    Value* x = node->inputs[1 - i];
    const auto bound = scalar_of(node->inputs[i]);
    if (!bound || std::isnan(*bound) || x->is_constant() || !same_type(x, node->output())) continue;
    if (max && *bound == 0) return fuse(node, "Relu", x);
    Value* number = emit_scalar(node, x->type.dtype, *bound);
    const std::vector<Value*> inputs = max ? std::vector<Value*>{x, number} : std::vector<Value*>{x, nullptr, number};
    return emit(node, "Clip", inputs, {}, node);
  }
  return nullptr;
}

// Clip of a Clip, or of a Relu: one Clip.
Value* merge_clips(Node* node) {
  if (node->op != "Clip") return nullptr;
  Node* inner = producer_of(node->input(0), "Clip");
  const bool relu = inner == nullptr && producer_of(node->input(0), "Relu") != nullptr;
  if (inner == nullptr && !relu) return nullptr;
  if (only_user(node->input(0)) == nullptr) return nullptr;
  const double infinity = std::numeric_limits<double>::infinity();
  const auto bound = [](const Node* n, size_t i, double none) -> std::optional<double> {
    return n->input(i) == nullptr ? none : scalar_of(n->input(i));
  };
  const auto lo = bound(node, 1, -infinity);
  const auto hi = bound(node, 2, infinity);
  const auto inner_lo = relu ? std::optional<double>(0) : bound(inner, 1, -infinity);
  const auto inner_hi = relu ? std::optional<double>(infinity) : bound(inner, 2, infinity);
  if (!lo || !hi || !inner_lo || !inner_hi) return nullptr;
  const bool ordered = *inner_lo <= *inner_hi && *lo <= *hi && *inner_lo <= *hi && *lo <= *inner_hi;
  if (!ordered) return nullptr;  // also when a bound is NaN
  Value* x = node->input(0)->producer->input(0);
  const auto number = [&](double v, double none) { return v == none ? nullptr : emit_scalar(node, x->type.dtype, v); };
  Value* low = number(std::max(*lo, *inner_lo), -infinity);
  Value* high = number(std::min(*hi, *inner_hi), infinity);
  return emit(node, "Clip", {x, low, high}, {}, node);
}

}  // namespace

Value* match_activation(Node* node) {
  if (!computes_in_float(node->output())) return nullptr;
  if (node->op == "Mul" || node->op == "Div") {
    const Product p = product_of(node->output());
    if (Value* out = match_hard_swish(node, p)) return out;
    if (Value* out = match_swish(node, p)) return out;
    return match_gelu(node, p);
  }
  if (node->op == "Pow" && is_scalar(node->input(1), 2) && same_type(node->input(0), node->output())) {
    return emit(node, "Mul", {node->input(0), node->input(0)}, {}, node);
  }
  if (Value* out = match_clip(node)) return out;
  return merge_clips(node);
}

}  // namespace deepjit
