// A chain of multiplications and divisions by numbers, seen as coefficient * factor * factor ...
// Patterns are written in many orders ("x*c(x)/6", "x/6*c(x)", "x*(c(x)*(1/6))"); their product is one.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace deepjit {

struct Product {
  double coefficient = 1;
  std::vector<const Value*> factors;  // in reading order, scalar constants taken out
};

// Follows Mul and Div-by-a-number from `value` through intermediate values with a single reader (the value
// itself is always opened).
Product product_of(const Value* value);
// The same with `keep` never opened.
Product product_of(const Value* value, const Value* keep);

// True when a is b up to the rounding of a float32 constant.
bool near(double a, double b);

// value = x + number (either order, or x - number): x and the number.
const Value* match_add_number(const Value* value, double* number);
// `value` is the sum of two values in either order, one of which is `one`: the other.
const Value* other_term(const Node* node, const Value* one);

}  // namespace deepjit
