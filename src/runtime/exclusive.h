// One thread at a time in a context: holds a flag while it lives, and says so when another thread has it.
#pragma once

#include <atomic>

#include "base/error.h"

namespace deepjit {

class Exclusive {
 public:
  // Throws CONCURRENT_USE.
  explicit Exclusive(std::atomic<bool>& flag) : flag_(flag) {
    if (flag_.exchange(true)) {
      throw Error(Code::CONCURRENT_USE, "a context is used by two threads at once",
                  "create one context for each thread with create_context()");
    }
  }
  ~Exclusive() { flag_ = false; }
  Exclusive(const Exclusive&) = delete;
  Exclusive& operator=(const Exclusive&) = delete;

 private:
  std::atomic<bool>& flag_;
};

}  // namespace deepjit
