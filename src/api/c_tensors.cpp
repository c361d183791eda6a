#include "api/c_tensors.h"

namespace deepjit::c_api {

namespace {

bool is_collection(DataType dtype) { return dtype == DataType::SEQUENCE || dtype == DataType::OPTIONAL; }

size_t element_count(const deepjit_tensor& tensor) {
  size_t count = 1;
  for (int32_t i = 0; i < tensor.rank; ++i) {
    if (tensor.shape[i] < 0 || __builtin_mul_overflow(count, static_cast<size_t>(tensor.shape[i]), &count)) {
      throw Error(kArgument, "the shape of an input is not valid");
    }
  }
  return count;
}

size_t element_count(const Output& output) {
  size_t count = 1;
  for (int64_t d : output.shape) count *= static_cast<size_t>(d);
  return count;
}

}  // namespace

void require(const void* pointer, const char* what) {
  if (pointer == nullptr) throw Error(kArgument, std::string(what) + " is NULL");
}

std::string text_or(const char* text, const char* otherwise) { return text ? text : otherwise; }

InfoTable::InfoTable(const std::vector<TensorInfo>& list) : arrays_(list.size()) {
  for (size_t i = 0; i < list.size(); ++i) {
    const TensorInfo& info = list[i];
    Arrays& arrays = arrays_[i];
    for (const Dimension& d : info.shape) {
      arrays.dims.push_back(d.value);
      arrays.names.push_back(d.text.c_str());
    }
    if (!info.element.empty()) arrays.element = std::make_unique<InfoTable>(info.element);
    infos_.push_back({info.name.c_str(), static_cast<int32_t>(info.dtype),
                      info.ranked ? static_cast<int32_t>(info.shape.size()) : -1, arrays.dims.data(),
                      arrays.names.data(), info.optional ? 1 : 0,
                      arrays.element ? &arrays.element->infos_[0] : nullptr});
  }
}

void InfoTable::get(size_t i, deepjit_tensor_info* out) const {
  require(out, "info");
  if (i >= infos_.size()) throw Error(kArgument, "there is no tensor number " + std::to_string(i));
  *out = infos_[i];
}

CInputs::CInputs(const deepjit_tensor* tensors, size_t count, const int32_t* memory) : inputs_(count) {
  for (size_t i = 0; i < count; ++i) {
    require(tensors[i].name, "the name of an input");
    inputs_[i].name = tensors[i].name;
    if (memory != nullptr) inputs_[i].memory = static_cast<MemoryKind>(memory[i]);
    take(tensors[i], inputs_[i], 0);
  }
}

void CInputs::take(const deepjit_tensor& tensor, Input& input, int depth) {
  if (tensor.rank < 0) throw Error(kArgument, "the rank of an input is negative");
  if (tensor.rank > 0) require(tensor.shape, "the shape of an input");
  input.dtype = static_cast<DataType>(tensor.dtype);
  input.shape.assign(tensor.shape, tensor.shape + tensor.rank);
  input.data = tensor.data;
  if (input.dtype != DataType::STRING && !is_collection(input.dtype)) return;
  const size_t count = element_count(tensor);
  if (count > 0) require(tensor.data, "the data of an input");
  if (input.dtype == DataType::STRING) {
    const auto* texts = static_cast<const char* const*>(tensor.data);
    std::vector<std::string>& strings = strings_.emplace_back();
    for (size_t i = 0; i < count; ++i) strings.push_back(text_or(texts[i], ""));
    input.data = strings.data();
    return;
  }
  if (depth == 2) throw Error(kArgument, "sequences and optionals nest too deep");
  std::vector<Input>& elements = elements_.emplace_back(count);
  for (size_t i = 0; i < count; ++i) {
    take(static_cast<const deepjit_tensor*>(tensor.data)[i], elements[i], depth + 1);
  }
  input.data = elements.data();
}

void COutput::take(const Output& output) {
  tensor_ = {output.name.c_str(), static_cast<int32_t>(output.dtype), static_cast<int32_t>(output.shape.size()),
             output.shape.data(), output.data};
  if (output.dtype != DataType::STRING && !is_collection(output.dtype)) return;
  const size_t count = element_count(output);
  if (output.dtype == DataType::STRING) {
    for (size_t i = 0; i < count; ++i) {
      strings_.push_back(static_cast<const std::string*>(output.data)[i].c_str());
    }
    tensor_.data = strings_.data();
    return;
  }
  inner_.resize(count);
  for (size_t i = 0; i < count; ++i) {
    inner_[i].take(static_cast<const Output*>(output.data)[i]);
    elements_.push_back(inner_[i].tensor());
  }
  tensor_.data = elements_.data();
}

}  // namespace deepjit::c_api
