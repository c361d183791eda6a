#include "graph/parse_tokens.h"

#include <algorithm>

namespace deepjit {

namespace {

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
}

}  // namespace

void TextCursor::fail(const std::string& message) const {
  const std::string_view read = text_.substr(0, text_.find_last_not_of(" \t\r\n", at_ == 0 ? 0 : at_ - 1) + 1);
  const auto line = 1 + std::count(read.begin(), read.end(), '\n');
  throw Error(Code::PARSE, "graph text, line " + std::to_string(line) + ": " + message);
}

void TextCursor::skip() {
  while (at_ < text_.size()) {
    if (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r') {
      ++at_;
    } else if (text_.substr(at_, 2) == "//") {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else {
      return;
    }
  }
}

char TextCursor::peek() {
  skip();
  return at_ < text_.size() ? text_[at_] : '\0';
}

bool TextCursor::accept(std::string_view token) {
  skip();
  if (text_.substr(at_, token.size()) != token) return false;
  const size_t end = at_ + token.size();
  if (is_word(token.back()) && end < text_.size() && is_word(text_[end])) return false;
  at_ = end;
  return true;
}

void TextCursor::expect(std::string_view token) {
  if (accept(token)) return;
  const char next = peek();
  fail("expected \"" + std::string(token) + "\", found " +
       (next == '\0' ? "the end" : "\"" + std::string(text_.substr(at_, 12)) + "\""));
}

std::string TextCursor::word() {
  skip();
  const size_t start = at_;
  while (at_ < text_.size() && is_word(text_[at_])) ++at_;
  if (at_ == start) fail("expected a word");
  return std::string(text_.substr(start, at_ - start));
}

std::string TextCursor::name(char sigil) {
  expect(std::string(1, sigil));
  if (at_ < text_.size() && text_[at_] == '"') return quoted();
  const size_t start = at_;
  while (at_ < text_.size() && (is_word(text_[at_]) || text_[at_] == '/' || text_[at_] == '-')) ++at_;
  if (at_ == start) fail(std::string("expected a name after ") + sigil);
  return std::string(text_.substr(start, at_ - start));
}

std::string TextCursor::quoted() {
  expect("\"");
  std::string out;
  while (at_ < text_.size() && text_[at_] != '"') {
    char c = text_[at_++];
    if (c == '\\' && at_ < text_.size()) {
      c = text_[at_++];
      if (c == 'n') c = '\n';
    }
    out += c;
  }
  if (at_ == text_.size()) fail("a string does not end");
  ++at_;
  return out;
}

std::string TextCursor::number() {
  skip();
  const size_t start = at_;
  while (at_ < text_.size() && (is_word(text_[at_]) || text_[at_] == '-' || text_[at_] == '+')) ++at_;
  if (at_ == start) fail("expected a number");
  return std::string(text_.substr(start, at_ - start));
}

TensorType TextCursor::type() {
  const std::string dtype_text = word();
  const auto dtype = dtype_from_name(dtype_text);
  if (!dtype) fail("no element type is called \"" + dtype_text + "\"");
  Shape of_all = shape();
  if (*dtype != DType::SEQUENCE && *dtype != DType::OPTIONAL) return {*dtype, std::move(of_all)};
  if (!of_all.ranked() || of_all.rank() != 1) fail(dtype_text + " needs one dimension");
  expect("(");
  TensorType element = type();
  expect(")");
  return {*dtype, std::move(of_all), std::make_shared<const TensorType>(std::move(element))};
}

Shape TextCursor::shape() {
  expect("[");
  const size_t end = text_.find(']', at_);
  if (end == std::string_view::npos) fail("a shape does not end");
  const std::string_view inside = text_.substr(at_, end - at_);
  at_ = end + 1;
  if (inside == "*") return Shape();
  std::vector<Dim> dims;
  size_t start = 0;
  int depth = 0;
  for (size_t i = 0; i <= inside.size(); ++i) {
    if (i < inside.size() && inside[i] == '(') ++depth;
    if (i < inside.size() && inside[i] == ')') --depth;
    const bool ends = i == inside.size() ? !inside.empty() : inside[i] == ',' && depth == 0;
    if (!ends) continue;
    try {
      dims.push_back(Dim::parse(inside.substr(start, i - start)));
    } catch (const Error& e) {
      fail(e.message());
    }
    start = i + 1;
  }
  return Shape(std::move(dims));
}

}  // namespace deepjit
