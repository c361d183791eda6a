#include "api/values.h"

#include <algorithm>

namespace deepjit {
inline namespace v1 {

Dims checked_dims(const std::vector<int64_t>& shape, const std::string& what) {
  if (shape.size() > static_cast<size_t>(kMaxRank)) {
    throw internal::Error(Code::INPUT_SHAPE, what + " has rank " + std::to_string(shape.size()) + ", above 16");
  }
  for (int64_t d : shape) {
    if (d < 0) throw internal::Error(Code::INPUT_SHAPE, what + " has a negative dimension");
  }
  return Dims(std::span<const int64_t>(shape));
}

TensorView view_of_input(const Input& input, const std::string& what) {
  if (input.shape.size() > static_cast<size_t>(kMaxRank)) {
    throw internal::Error(Code::INPUT_SHAPE, what + " has rank " + std::to_string(input.shape.size()) + ", above 16");
  }
  TensorView view;
  view.dtype = static_cast<DType>(input.dtype);
  if (static_cast<int32_t>(view.dtype) != static_cast<int32_t>(input.dtype) || dtype_name(view.dtype) == "unknown" ||
      view.dtype == DType::UNDEFINED) {
    throw internal::Error(Code::INPUT_DTYPE, what + " has no element type");
  }
  view.dims = Dims(std::span<const int64_t>(input.shape));
  static std::byte nothing[64];
  const bool empty = std::count(input.shape.begin(), input.shape.end(), 0) != 0;
  if (input.data == nullptr && !empty) throw internal::Error(Code::ARGUMENT, what + ": the data pointer is null");
  // Nothing writes to inputs; the view's pointer has no const for the kernels' sake.
  view.data = input.data == nullptr ? nothing : const_cast<void*>(input.data);
  return view;
}

Tensor copy_of_elements(const Input& input, const std::string& what, int depth) {
  const TensorView view = view_of_input(input, what);
  for (int64_t d : view.dims) {
    if (d < 0) throw internal::Error(Code::INPUT_SHAPE, what + " has a negative dimension");
  }
  if (!is_collection(view.dtype)) return owned_copy(view);
  if (depth == 2) throw internal::Error(Code::INPUT_DTYPE, what + ": sequences and optionals nest too deep");
  if (view.dims.rank() != 1) {
    throw internal::Error(Code::INPUT_SHAPE, what + ": a " + data_type_name(input.dtype) + " has one dimension");
  }
  Tensor copy(view.dtype, view.dims);
  for (int64_t i = 0; i < view.count(); ++i) {
    copy.as<Tensor>()[i] =
        copy_of_elements(view.as<const Input>()[i], what + ", element " + std::to_string(i), depth + 1);
  }
  return copy;
}

const void* OutputElements::take(const TensorView& collection) {
  const auto n = static_cast<size_t>(collection.count());
  outputs_.assign(n, {});
  inner_.clear();
  inner_.resize(n);
  for (size_t i = 0; i < n; ++i) {
    const TensorView& element = collection.as<Tensor>()[i].view();
    outputs_[i].dtype = static_cast<DataType>(element.dtype);
    outputs_[i].shape.assign(element.dims.begin(), element.dims.end());
    outputs_[i].data = is_collection(element.dtype) ? inner_[i].take(element) : element.data;
  }
  return outputs_.data();
}

}  // namespace v1
}  // namespace deepjit
