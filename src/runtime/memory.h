// A block of 64-byte aligned host memory that only grows.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>

#include "base/error.h"

namespace deepjit {

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

}  // namespace deepjit
