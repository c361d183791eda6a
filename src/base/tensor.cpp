#include "base/tensor.h"

#include <cstdlib>
#include <new>

#include "base/small_types.h"
#include "base/visit.h"

namespace deepjit {

Tensor::Tensor(DType dtype, const Dims& dims) {
  for (int64_t d : dims) {  // beside a 0, a count does not tell
    if (d < 0) throw Error(Code::SHAPE_MISMATCH, "a tensor cannot have the shape " + dims.to_string());
  }
  view_ = {dtype, dims, nullptr};
  if (is_object(dtype)) {
    const auto own = [&]<typename T>(std::vector<T> objects) {
      auto owner = std::make_shared<std::vector<T>>(std::move(objects));
      view_.data = owner->data();
      owner_ = std::move(owner);
    };
    const auto n = static_cast<size_t>(dims.count());
    if (dtype == DType::STRING) {
      own(std::vector<std::string>(n));
    } else {
      own(std::vector<Tensor>(n));
    }
    return;
  }
  const size_t bytes = (static_cast<size_t>(view_.bytes()) + 63) / 64 * 64;
  void* memory = std::aligned_alloc(64, bytes == 0 ? 64 : bytes);
  if (memory == nullptr) throw Error(Code::HOST_OOM, "cannot allocate " + std::to_string(bytes) + " bytes");
  view_.data = memory;
  owner_ = std::shared_ptr<const void>(memory, [](const void* p) { std::free(const_cast<void*>(p)); });
}

Tensor::Tensor(DType dtype, const Dims& dims, const void* data, std::shared_ptr<const void> owner)
    : view_{dtype, dims, const_cast<void*>(data)}, owner_(std::move(owner)) {}

Tensor Tensor::vector_i64(std::span<const int64_t> values) {
  return from<int64_t>(DType::INT64, Dims{static_cast<int64_t>(values.size())}, values);
}

Tensor Tensor::scalar_f32(float value) { return from<float>(DType::FLOAT32, {}, std::span(&value, 1)); }

Tensor Tensor::reshaped(const Dims& dims) const {
  check_internal(dims.count() == count(), "reshaped: counts differ");
  Tensor out = *this;
  out.view_.dims = dims;
  return out;
}

std::vector<int64_t> to_i64(const TensorView& view) {
  const auto n = static_cast<size_t>(view.count());
  std::vector<int64_t> out(n);
  if (view.dtype == DType::BOOL) {
    for (size_t i = 0; i < n; ++i) out[i] = view.as<uint8_t>()[i] != 0;
    return out;
  }
  visit_integer(view.dtype, "integer values", [&]<typename T>() {
    for (size_t i = 0; i < n; ++i) out[i] = static_cast<int64_t>(view.as<T>()[i]);
  });
  return out;
}

std::vector<double> to_f64(const TensorView& view) {
  const auto n = static_cast<size_t>(view.count());
  std::vector<double> out(n);
  if (view.dtype == DType::BOOL) {
    for (size_t i = 0; i < n; ++i) out[i] = view.as<uint8_t>()[i] != 0;
    return out;
  }
  if (is_small_float(view.dtype)) {
    for (size_t i = 0; i < n; ++i)
      out[i] = static_cast<double>(small_float_to_float(view.dtype, view.as<uint8_t>()[i]));
    return out;
  }
  visit_numeric(view.dtype, "numeric values", [&]<typename T>() {
    for (size_t i = 0; i < n; ++i) out[i] = static_cast<double>(load_as_compute(view.as<T>()[i]));
  });
  return out;
}

std::vector<int64_t> Tensor::to_i64() const { return deepjit::to_i64(view_); }
std::vector<double> Tensor::to_f64() const { return deepjit::to_f64(view_); }

bool Tensor::same_as(const Tensor& other) const {
  if (view_.desc() != other.view_.desc()) return false;
  if (view_.data == other.view_.data) return true;
  if (dtype() == DType::STRING) {
    return std::equal(as<std::string>(), as<std::string>() + count(), other.as<std::string>());
  }
  if (is_object(dtype())) {
    return std::equal(as<Tensor>(), as<Tensor>() + count(), other.as<Tensor>(),
                      [](const Tensor& a, const Tensor& b) { return a.same_as(b); });
  }
  return std::memcmp(view_.data, other.view_.data, static_cast<size_t>(bytes())) == 0;
}

}  // namespace deepjit
