#include "import/onnx/text.h"

#include <cctype>
#include <cstdint>

#include "base/limits.h"

namespace deepjit::importer {

namespace {

// Length of the valid UTF-8 sequence at the start of `text`, 0 when there is none.
size_t sequence_length(std::string_view text) {
  auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = byte(0);
  if (first < 0x80) return 1;
  const size_t length = first >= 0xc2 && first <= 0xdf   ? 2
                        : (first & 0xf0) == 0xe0         ? 3
                        : first >= 0xf0 && first <= 0xf4 ? 4
                                                         : 0;
  if (length == 0 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  // Overlong forms, surrogates and values above U+10FFFF.
  if (first == 0xe0 && byte(1) < 0xa0) return 0;
  if (first == 0xed && byte(1) > 0x9f) return 0;
  if (first == 0xf0 && byte(1) < 0x90) return 0;
  if (first == 0xf4 && byte(1) > 0x8f) return 0;
  return length;
}

}  // namespace

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const size_t n = sequence_length(text);
    if (n == 0) return false;
    text.remove_prefix(n);
  }
  return true;
}

void check_name(std::string_view name, std::string_view what) {
  if (name.size() > static_cast<size_t>(limits::name_bytes)) {
    throw Error(Code::LIMIT, std::string(what) + " " + quoted(name) + " is " + std::to_string(name.size()) +
                                 " bytes long, the limit is " + std::to_string(limits::name_bytes));
  }
  if (!is_utf8(name)) throw Error(Code::UTF8, std::string(what) + " " + quoted(name) + " is not valid UTF-8");
}

std::string shortened(std::string name) {
  constexpr auto kMost = static_cast<size_t>(limits::made_name_bytes);
  if (name.size() <= kMost) return name;
  size_t start = name.size() - kMost;
  while (start < name.size() && (static_cast<uint8_t>(name[start]) & 0xc0) == 0x80) ++start;
  return "..." + name.substr(start);
}

std::string quoted(std::string_view name) {
  constexpr size_t kShown = 200;
  static const char* hex = "0123456789abcdef";
  std::string out = "\"";
  for (size_t i = 0; i < name.size() && i < kShown;) {
    const size_t n = sequence_length(name.substr(i));
    const auto c = static_cast<uint8_t>(name[i]);
    if (n == 0 || c < 0x20 || c == 0x7f) {
      out += std::string("\\x") + hex[c >> 4] + hex[c & 15];
      ++i;
    } else {
      out += name.substr(i, n);
      i += n;
    }
  }
  return out + (name.size() > kShown ? "...\"" : "\"");
}

std::string symbol_name(std::string_view dim_param) {
  std::string out;
  for (char c : dim_param) {
    const bool plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
    out += plain ? c : '_';
  }
  // min and max are functions in the text form of a Dim.
  if (out.empty() || std::isdigit(static_cast<unsigned char>(out[0])) || out[0] == '.' || out == "min" ||
      out == "max") {
    out = "_" + out;
  }
  return out;
}

}  // namespace deepjit::importer
