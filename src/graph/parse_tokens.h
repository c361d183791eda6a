// The tokens of the graph's text form. Part of parse.cpp.
#pragma once

#include <string>
#include <string_view>

#include "base/dim.h"

namespace deepjit {

class TextCursor {
 public:
  explicit TextCursor(std::string_view text) : text_(text) {}

  [[noreturn]] void fail(const std::string& message) const;
  // Skips blanks and comments, then looks at the next character ('\0' at the end).
  char peek();
  // Takes `token` when it comes next.
  bool accept(std::string_view token);
  void expect(std::string_view token);
  // A word of letters, digits, '_' and '.'.
  std::string word();
  // The name after a sigil: %name or %"any text".
  std::string name(char sigil);
  std::string quoted();
  // A number as text: "-1.5e3", "inf", "nan", "true".
  std::string number();
  // "float32[N,3]", "sequence[n](float32[*])".
  TensorType type();

 private:
  void skip();
  Shape shape();
  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace deepjit
