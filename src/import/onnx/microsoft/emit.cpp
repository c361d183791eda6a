#include "import/onnx/microsoft/emit.h"

#include "import/onnx/tensor.h"

namespace deepjit::importer {

Value* Emit::op(const std::string& name, std::vector<Value*> inputs, const std::string& attribute,
                Attribute value) const {
  Attributes attrs;
  attrs.set(attribute, std::move(value));
  return node_.emit(name, std::move(inputs), std::move(attrs));
}

Value* Emit::scale(Value* x, double factor) const { return factor == 1 ? x : mul(x, scalar_like(factor, x)); }

Value* Emit::cast(Value* x, DType to) const {
  return dtype_of(x) == to ? x : op("Cast", {x}, "to", static_cast<int64_t>(to));
}

Value* Emit::cast_like(Value* x, Value* like) const {
  return dtype_of(like) == DType::UNDEFINED ? op("CastLike", {x, like}) : cast(x, dtype_of(like));
}

Value* Emit::swap_last_two(Value* x) const {
  std::vector<int64_t> perm(static_cast<size_t>(require_rank(x, "a transposed operand")));
  if (perm.size() < 2) throw Error(Code::UNSUPPORTED_OP, "a transposed operand needs two dims");
  for (size_t i = 0; i < perm.size(); ++i) perm[i] = static_cast<int64_t>(i);
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  return transpose(x, perm);
}

Value* Emit::concat(std::vector<Value*> parts, int64_t axis) const {
  return parts.size() == 1 ? parts[0] : op("Concat", std::move(parts), "axis", axis);
}

Value* Emit::slice(Value* x, int64_t axis, Value* start, Value* end) const {
  return op("Slice", {x, start, end, ints({axis})});
}

Value* Emit::slice(Value* x, int64_t axis, int64_t start, int64_t end) const {
  return slice(x, axis, ints({start}), ints({end}));
}

std::vector<Value*> Emit::split(Value* x, int64_t axis, const std::vector<int64_t>& sizes) const {
  Attributes attrs;
  attrs.set("axis", axis);
  return node_.emit_many("Split", {x, ints(sizes)}, attrs, static_cast<int>(sizes.size()))->outputs;
}

Value* Emit::dim(Value* x, int64_t axis) const {
  Attributes attrs;
  attrs.set("start", axis);
  if (axis != -1) attrs.set("end", axis + 1);
  return node_.emit("Shape", {x}, attrs);
}

Value* Emit::range(Value* count) const {
  Value* zero = node_.constant(scalar_of(DType::INT64, 0));
  Value* one = node_.constant(scalar_of(DType::INT64, 1));
  return op("Range", {zero, squeeze(cast(count, DType::INT64), {0}), one});
}

int require_rank(const Value* value, const std::string& what) {
  const std::optional<int> rank = rank_of(value);
  if (!rank) throw Error(Code::UNSUPPORTED_OP, what + " of unknown rank is not supported");
  return *rank;
}

Value* to_channels_first(const Emit& emit, Value* x) {
  const int rank = require_rank(x, "a channels-last tensor");
  std::vector<int64_t> perm = {0, rank - 1};
  for (int64_t i = 1; i < rank - 1; ++i) perm.push_back(i);
  return emit.transpose(x, perm);
}

Value* to_channels_last(const Emit& emit, Value* x) {
  const int rank = require_rank(x, "a channels-last tensor");
  std::vector<int64_t> perm = {0};
  for (int64_t i = 2; i < rank; ++i) perm.push_back(i);
  perm.push_back(1);
  return emit.transpose(x, perm);
}

}  // namespace deepjit::importer
