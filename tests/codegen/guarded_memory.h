// Memory that shows what is read or written beside it.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace deepjit {

// Memory between two pages that nobody may touch. The operand lies at its start, aligned, or right before its end.
class GuardedMemory {
 public:
  static constexpr size_t kPage = 4096;
  static constexpr unsigned char kUntouched = 0x7f;

  GuardedMemory(size_t bytes, bool at_end) : bytes_(bytes) {
    size_ = (bytes + kPage - 1) / kPage * kPage;
    void* all = mmap(nullptr, size_ + 2 * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED) throw Error(Code::HOST_OOM, "no memory for an operand");
    start_ = static_cast<unsigned char*>(all) + kPage;
    if (size_ > 0) mprotect(start_, size_, PROT_READ | PROT_WRITE);
    if (size_ > 0) std::memset(start_, kUntouched, size_);
    data_ = at_end ? start_ + size_ - bytes : start_;
  }
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;
  ~GuardedMemory() { munmap(start_ - kPage, size_ + 2 * kPage); }

  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  // Was nothing written beside the operand?
  bool is_clean() const {
    const auto untouched = [](unsigned char c) { return c == kUntouched; };
    return std::all_of(start_, data_, untouched) && std::all_of(data_ + bytes_, start_ + size_, untouched);
  }

 private:
  size_t bytes_;
  size_t size_ = 0;
  unsigned char* start_ = nullptr;
  unsigned char* data_ = nullptr;
};

}  // namespace deepjit
