// What all ops on sequences and optionals share.
#include <algorithm>
#include <array>

#include "ops/common.h"
#include "ops/sequence/sequence.h"

namespace deepjit {

bool takes_collections(std::string_view op) {
  constexpr std::array<std::string_view, 11> kOps = {"Identity",
                                                     "If",
                                                     "Loop",
                                                     "SequenceAt",
                                                     "SequenceInsert",
                                                     "SequenceErase",
                                                     "SequenceLength",
                                                     "ConcatFromSequence",
                                                     "Optional",
                                                     "OptionalHasElement",
                                                     "OptionalGetElement"};
  return std::find(kOps.begin(), kOps.end(), op) != kOps.end();
}

TensorType common_type(const TensorType& a, const TensorType& b, const FreshDim& fresh, std::string_view what) {
  if (a.dtype != b.dtype || (a.element == nullptr) != (b.element == nullptr)) {
    throw Error(Code::TYPE, std::string(what) + ": " + std::string(dtype_name(a.dtype)) + " and " +
                                std::string(dtype_name(b.dtype)) + " do not go together");
  }
  TensorType out{a.dtype, Shape()};
  if (a.shape.ranked() && b.shape.ranked() && a.shape.rank() == b.shape.rank()) {
    std::vector<Dim> dims;
    for (int i = 0; i < a.shape.rank(); ++i) dims.push_back(a.shape[i] == b.shape[i] ? a.shape[i] : fresh());
    out.shape = Shape(std::move(dims));
  }
  if (a.element != nullptr) {
    out.element = std::make_shared<const TensorType>(
        common_type(*a.element, *b.element, fresh, std::string(what) + ", elements"));
  }
  return out;
}

TensorType collection_type(DType dtype, Dim count, TensorType element) {
  return {dtype, Shape({std::move(count)}), std::make_shared<const TensorType>(std::move(element))};
}

TensorType element_type(InferContext& ctx, int i) {
  check_internal(ctx.input(i).element != nullptr, "a collection without an element type");
  TensorType type = *ctx.input(i).element;
  for (int d = 0; type.shape.ranked() && d < type.shape.rank(); ++d) {
    if (!type.shape[d].is_const()) type.shape[d] = ctx.fresh_dim();
  }
  return type;
}

Tensor owned_copy(const TensorView& view) {
  Tensor copy(view.dtype, view.dims);
  copy_elements(view, copy.view());
  return copy;
}

void add_sequence_ops(OpRegistry& registry) {
  add_sequence_basic_ops(registry);
  add_sequence_split_ops(registry);
  add_optional_ops(registry);
}

}  // namespace deepjit
