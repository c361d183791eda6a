// Short names for the operators that formulas are made of. Numbers take the element type of one value.
#pragma once

#include "import/onnx/node_import.h"

namespace deepjit::importer {

class Arithmetic {
 public:
  Arithmetic(NodeImport& node, Value* like) : node_(node), like_(like) {}

  Value* number(double value) const { return node_.scalar_like(value, like_); }
  Value* add(Value* a, Value* b) const { return node_.emit("Add", {a, b}); }
  Value* sub(Value* a, Value* b) const { return node_.emit("Sub", {a, b}); }
  Value* mul(Value* a, Value* b) const { return node_.emit("Mul", {a, b}); }
  Value* div(Value* a, Value* b) const { return node_.emit("Div", {a, b}); }
  Value* add(Value* a, double b) const { return b == 0 ? a : add(a, number(b)); }
  Value* mul(Value* a, double b) const { return b == 1 ? a : mul(a, number(b)); }
  Value* one_minus(Value* a) const { return sub(number(1), a); }
  Value* sqrt(Value* a) const { return node_.emit("Sqrt", {a}); }
  Value* exp(Value* a) const { return node_.emit("Exp", {a}); }
  Value* greater(Value* a, double b) const { return node_.emit("Greater", {a, number(b)}); }
  Value* where(Value* condition, Value* a, Value* b) const { return node_.emit("Where", {condition, a, b}); }
  Value* cast(Value* a, DType dtype) const;
  // Over the last axis, which stays with size 1.
  Value* reduce(const char* op, Value* a) const { return node_.emit(op, {a, node_.ints({-1})}); }

 private:
  NodeImport& node_;
  Value* like_;
};

inline Value* Arithmetic::cast(Value* a, DType dtype) const {
  if (dtype_of(a) == dtype) return a;
  Attributes attrs;
  attrs.set("to", static_cast<int64_t>(dtype));
  return node_.emit("Cast", {a}, attrs);
}

}  // namespace deepjit::importer
