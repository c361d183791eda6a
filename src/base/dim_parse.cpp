// Text to Dim, the inverse of Dim::to_string.
#include <cctype>

#include "base/dim.h"
#include "base/limits.h"

namespace deepjit {

namespace {

constexpr int kMaxDepth = 2 * limits::dim_depth;  // a division takes two parentheses

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '?'; }

}  // namespace

// expr = term {(+|-) term}; term = factor {(*|//) factor}; factor = int | name | min(,) | max(,) | (expr) | -factor
class DimParser {
 public:
  explicit DimParser(std::string_view text) : text_(text) {}

  Dim parse() {
    Dim d = expression();
    if (position_ != text_.size()) fail();
    return d;
  }

 private:
  Dim expression() {
    Dim d = term();
    while (true) {
      if (accept("+"))
        d = d + term();
      else if (accept("-"))
        d = d - term();
      else
        return d;
    }
  }
  Dim nested() {
    if (++depth_ > kMaxDepth) fail();
    Dim d = expression();
    --depth_;
    return d;
  }
  Dim term() {
    Dim d = factor();
    while (true) {
      if (accept("//"))
        d = floordiv(d, factor());
      else if (accept("*"))
        d = d * factor();
      else
        return d;
    }
  }
  Dim factor() {
    bool negative = false;
    while (accept("-")) negative = !negative;
    if (negative) return Dim(0) - factor();
    if (accept("(")) {
      Dim d = nested();
      expect(")");
      return d;
    }
    if (accept("min(")) return pair(true);
    if (accept("max(")) return pair(false);
    size_t end = position_;
    while (end < text_.size() && is_word(text_[end])) ++end;
    if (end == position_) fail();
    const std::string word(text_.substr(position_, end - position_));
    position_ = end;
    if (std::isdigit(static_cast<unsigned char>(word[0])) == 0) return Dim::symbol(word);
    try {
      return Dim(std::stoll(word));
    } catch (const std::exception&) {
      fail();
    }
  }
  Dim pair(bool is_min) {
    Dim a = nested();
    expect(",");
    Dim b = nested();
    expect(")");
    return is_min ? min(a, b) : max(a, b);
  }
  bool accept(std::string_view token) {
    if (text_.substr(position_, token.size()) != token) return false;
    position_ += token.size();
    return true;
  }
  void expect(std::string_view token) {
    if (!accept(token)) fail();
  }
  [[noreturn]] void fail() { throw Error(Code::PARSE, "bad dimension expression \"" + std::string(text_) + "\""); }

  std::string_view text_;
  size_t position_ = 0;
  int depth_ = 0;
};

Dim Dim::parse(std::string_view text) { return DimParser(text).parse(); }

}  // namespace deepjit
