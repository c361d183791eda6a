// Memory that a context or a binding keeps: plain bytes, and values of any element type.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>

#include "base/error.h"
#include "base/tensor.h"

namespace deepjit {

// A block of 64-byte aligned host memory that only grows.
class Memory {
 public:
  // At least `bytes` bytes; contents are kept when it does not have to grow, lost otherwise.
  void* ensure(size_t bytes) {
    if (bytes > bytes_ || data_ == nullptr) {
      data_.reset();
      const size_t rounded = (bytes + 63) / 64 * 64 + 64;
      data_.reset(std::aligned_alloc(64, rounded));
      if (data_ == nullptr) {
        bytes_ = 0;
        throw Error(Code::HOST_OOM, "cannot allocate " + std::to_string(rounded) + " bytes");
      }
      bytes_ = rounded;
    }
    return data_.get();
  }
  void* data() const { return data_.get(); }
  size_t bytes() const { return bytes_; }

 private:
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  std::unique_ptr<void, Free> data_;
  size_t bytes_ = 0;
};

// About how many bytes a tensor of objects holds; data that several elements share counts for each.
inline size_t object_bytes(const Tensor& tensor) {
  if (!tensor.defined()) return 0;
  if (!is_object(tensor.dtype())) return static_cast<size_t>(tensor.bytes());
  size_t bytes = 0;
  for (int64_t i = 0; i < tensor.count(); ++i) {
    bytes += tensor.dtype() == DType::STRING ? sizeof(std::string) + tensor.as<std::string>()[i].size()
                                             : sizeof(Tensor) + object_bytes(tensor.as<Tensor>()[i]);
  }
  return bytes;
}

// Memory for one value: bytes that only grow, or objects, which are made anew each time.
class ValueMemory {
 public:
  // What it held before is gone; plain elements are not initialized, objects are empty.
  void* ensure(const TensorDesc& desc) {
    if (!is_object(desc.dtype)) return memory_.ensure(static_cast<size_t>(desc.bytes()));
    objects_ = Tensor(desc.dtype, desc.dims);
    return objects_.view().data;
  }
  void* data() const { return objects_.defined() ? objects_.view().data : memory_.data(); }
  size_t bytes() const { return memory_.bytes() + object_bytes(objects_); }

 private:
  Memory memory_;
  Tensor objects_;
};

}  // namespace deepjit
