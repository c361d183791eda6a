// A tensor in host memory: a view, and an owner.
#pragma once

#include <memory>

#include "base/types.h"

namespace deepjit {

// Element type and concrete shape.
struct TensorDesc {
  DType dtype = DType::UNDEFINED;
  Dims dims;

  int64_t count() const { return dims.count(); }
  // Bytes of a dense row-major tensor.
  int64_t bytes() const { return checked_mul(dims.count(), static_cast<int64_t>(dtype_size(dtype))); }
  bool operator==(const TensorDesc&) const = default;
};

// Dense, row-major data somewhere in memory. Does not own. For STRING, data points at std::string objects; for
// SEQUENCE and OPTIONAL, at Tensor objects.
struct TensorView {
  DType dtype = DType::UNDEFINED;
  Dims dims;
  void* data = nullptr;

  int64_t count() const { return dims.count(); }
  int64_t bytes() const { return desc().bytes(); }
  TensorDesc desc() const { return {dtype, dims}; }
  template <typename T>
  T* as() const {
    return static_cast<T*>(data);
  }
};

// Owns its data (64-byte aligned); copies share it. Treat the data as immutable once shared.
class Tensor {
 public:
  Tensor() = default;
  // Allocates; contents are uninitialized (objects: empty). Throws HOST_OOM.
  Tensor(DType dtype, const Dims& dims);
  // Refers to memory kept alive by `owner` (a mapped file, a numpy array); no copy.
  Tensor(DType dtype, const Dims& dims, const void* data, std::shared_ptr<const void> owner);

  template <typename T>
  static Tensor from(DType dtype, const Dims& dims, std::span<const T> values) {
    Tensor t(dtype, dims);
    for (size_t i = 0; i < values.size(); ++i) t.as<T>()[i] = values[i];
    return t;
  }
  static Tensor vector_i64(std::span<const int64_t> values);  // 1-D int64
  static Tensor scalar_f32(float value);                      // 0-D float32

  bool defined() const { return view_.dtype != DType::UNDEFINED; }
  DType dtype() const { return view_.dtype; }
  const Dims& dims() const { return view_.dims; }
  int64_t count() const { return view_.count(); }
  int64_t bytes() const { return view_.bytes(); }
  const TensorView& view() const { return view_; }
  template <typename T>
  T* as() const {
    return view_.as<T>();
  }
  // The same data under another shape of equal count.
  Tensor reshaped(const Dims& dims) const;

  // Elements as int64 (any integer or bool type) or double (any numeric type).
  std::vector<int64_t> to_i64() const;
  std::vector<double> to_f64() const;
  // True when dtype, dims and all elements are equal, bit for bit.
  bool same_as(const Tensor& other) const;

 private:
  TensorView view_;
  std::shared_ptr<const void> owner_;
};

std::vector<int64_t> to_i64(const TensorView& view);
std::vector<double> to_f64(const TensorView& view);

}  // namespace deepjit
