#include "passes/fusion/product.h"

#include <cmath>

#include "passes/edit.h"

namespace deepjit {

namespace {

void collect(const Value* value, const Value* keep, bool open, Product& out) {
  if (const auto number = scalar_of(value)) {
    out.coefficient *= *number;
    return;
  }
  const Node* node = value->producer;
  const bool product = node != nullptr && (node->op == "Mul" || node->op == "Div") && value != keep;
  const bool single = open || (product && only_user(value) != nullptr);
  if (product && single && node->op == "Mul") {
    collect(node->inputs[0], keep, false, out);
    collect(node->inputs[1], keep, false, out);
    return;
  }
  if (product && single) {
    const auto divisor = scalar_of(node->inputs[1]);
    if (divisor && *divisor != 0) {
      out.coefficient /= *divisor;
      collect(node->inputs[0], keep, false, out);
      return;
    }
  }
  out.factors.push_back(value);
}

}  // namespace

Product product_of(const Value* value) { return product_of(value, nullptr); }

Product product_of(const Value* value, const Value* keep) {
  Product out;
  collect(value, keep, true, out);
  return out;
}

bool near(double a, double b) { return std::abs(a - b) <= 2e-6 * std::abs(b); }

const Value* match_add_number(const Value* value, double* number) {
  if (value == nullptr || value->producer == nullptr) return nullptr;
  const Node* node = value->producer;
  if (node->op == "Add" || node->op == "Sub") {
    if (const auto right = scalar_of(node->input(1))) {
      *number = node->op == "Add" ? *right : -*right;
      return node->input(0);
    }
  }
  if (node->op == "Add") {
    if (const auto left = scalar_of(node->input(0))) {
      *number = *left;
      return node->input(1);
    }
  }
  return nullptr;
}

const Value* other_term(const Node* node, const Value* one) {
  if (node->input(0) == one) return node->input(1);
  return node->input(1) == one ? node->input(0) : nullptr;
}

}  // namespace deepjit
