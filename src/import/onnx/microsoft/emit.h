// Short words for handlers that emit several nodes of the canonical ops.
//
// Each call adds one node (or folds nothing: constants meet in the passes) and returns its value.
#pragma once

#include "import/onnx/node_import.h"

namespace deepjit::importer {

class Emit {
 public:
  explicit Emit(NodeImport& node) : node_(node) {}

  NodeImport& node() const { return node_; }
  Value* ints(const std::vector<int64_t>& values) const { return node_.ints(values); }
  Value* scalar_like(double value, Value* like) const { return node_.scalar_like(value, like); }

  Value* op(const std::string& name, std::vector<Value*> inputs) const { return node_.emit(name, std::move(inputs)); }
  Value* op(const std::string& name, std::vector<Value*> inputs, const std::string& attribute, Attribute value) const;
  Value* add(Value* a, Value* b) const { return op("Add", {a, b}); }
  Value* sub(Value* a, Value* b) const { return op("Sub", {a, b}); }
  Value* mul(Value* a, Value* b) const { return op("Mul", {a, b}); }
  Value* matmul(Value* a, Value* b) const { return op("MatMul", {a, b}); }
  Value* scale(Value* x, double factor) const;
  Value* cast(Value* x, DType to) const;
  Value* cast_like(Value* x, Value* like) const;

  // Shapes are 1-D int64; 0 keeps a dim of x and -1 takes what is left.
  Value* reshape(Value* x, const std::vector<int64_t>& shape) const { return reshape(x, ints(shape)); }
  Value* reshape(Value* x, Value* shape) const { return op("Reshape", {x, shape}); }
  // x in the shape of `like`, also where dims of that are 0.
  Value* reshape_like(Value* x, Value* like) const {
    return op("Reshape", {x, op("Shape", {like})}, "allowzero", int64_t{1});
  }
  Value* transpose(Value* x, const std::vector<int64_t>& perm) const { return op("Transpose", {x}, "perm", perm); }
  Value* swap_last_two(Value* x) const;
  Value* unsqueeze(Value* x, const std::vector<int64_t>& axes) const { return op("Unsqueeze", {x, ints(axes)}); }
  Value* squeeze(Value* x, const std::vector<int64_t>& axes) const { return op("Squeeze", {x, ints(axes)}); }
  Value* expand(Value* x, Value* shape) const { return op("Expand", {x, shape}); }
  Value* concat(std::vector<Value*> parts, int64_t axis) const;
  // x[start:end] along one axis; bounds are 1-D of one element.
  Value* slice(Value* x, int64_t axis, Value* start, Value* end) const;
  Value* slice(Value* x, int64_t axis, int64_t start, int64_t end) const;
  std::vector<Value*> split(Value* x, int64_t axis, const std::vector<int64_t>& sizes) const;
  Value* gather(Value* x, Value* index, int64_t axis) const { return op("Gather", {x, index}, "axis", axis); }
  // The size of one axis, 1-D of one element.
  Value* dim(Value* x, int64_t axis) const;
  // 0, 1, ... as 1-D int64, as many as `count` (1-D of one element) says.
  Value* range(Value* count) const;
  Value* softmax(Value* x) const { return op("Softmax", {x}, "axis", int64_t{-1}); }

 private:
  NodeImport& node_;
};

// Throws UNSUPPORTED_OP when the rank is not known: what a layout change needs.
int require_rank(const Value* value, const std::string& what);
// Channels last to channels first, and back.
Value* to_channels_first(const Emit& emit, Value* x);
Value* to_channels_last(const Emit& emit, Value* x);

}  // namespace deepjit::importer
