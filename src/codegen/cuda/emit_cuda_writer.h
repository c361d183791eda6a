// Lines of CUDA text with their indentation, and the functions of the device library that they use.
#pragma once

#include <fmt/format.h>

#include <set>
#include <string>

#include "base/types.h"

namespace deepjit {

class CudaWriter {
 public:
  template <typename... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    add(fmt::format(format, std::forward<Args>(args)...));
  }
  // A line that opens a block, and the end of one.
  template <typename... Args>
  void open(fmt::format_string<Args...> format, Args&&... args) {
    add(fmt::format(format, std::forward<Args>(args)...) + " {");
    ++depth_;
  }
  void close() {
    --depth_;
    add("}");
  }
  void otherwise() {
    --depth_;
    add("} else {");
    ++depth_;
  }
  // A loop over the columns of one thread, laid out flat.
  void open_lanes(int count) {
    add("#pragma unroll");
    open("for (int k = 0; k < {}; ++k)", count);
  }

  // A call of a function of the device library, which then becomes part of the text.
  std::string call(const std::string& function, const std::string& arguments) {
    used_.insert(function);
    return function + "(" + arguments + ")";
  }
  // The type of `count` neighbouring elements in memory.
  std::string vector_type(DType dtype, int count) {
    vectors_.insert({dtype, count});
    return vector_name(dtype, count);
  }

  // The types and functions that the lines need, then the lines.
  std::string finish() const;

  static std::string vector_name(DType dtype, int count);

 private:
  void add(const std::string& text) { body_ += std::string(static_cast<size_t>(depth_) * 2, ' ') + text + "\n"; }

  int depth_ = 0;
  std::string body_;
  std::set<std::string> used_;
  std::set<std::pair<DType, int>> vectors_;
};

// The C type of an element in memory, and of a value at work.
std::string cuda_memory_type(DType dtype);
std::string cuda_register_type(DType dtype);

// Of the device library, what products need: copies into shared memory and tensor cores; nullptr for other names.
const char* product_library_text(const std::string& name);
// The same of groups of warps; "" for other names.
std::string group_library_text(const std::string& name);

// The device library: the named functions and those that they need.
std::string cuda_library_text(const std::set<std::string>& functions);

}  // namespace deepjit
