#include <algorithm>

#include "base/error.h"
#include "kernels/cublaslt/algorithm.h"

namespace deepjit::cublaslt {

namespace {

[[noreturn]] void damaged(const std::string& text) {
  throw Error(Code::ENGINE_RANGE, "\"" + text + "\" names no algorithm of cuBLASLt");
}

// "17", or "-1" where the library counts in a way of its own.
uint32_t read_number(const std::string& digits, const std::string& text) {
  if (digits == "-1") return UINT32_MAX;
  const bool plain =
      !digits.empty() && digits.size() <= 9 && digits.find_first_not_of("0123456789") == std::string::npos;
  if (!plain || (digits[0] == '0' && digits != "0")) damaged(text);
  return static_cast<uint32_t>(std::stoul(digits));
}

// Sets the field that `word` tells, which must come behind field `after`. Its place.
size_t read_field(const std::string& word, size_t after, const std::string& text, Algorithm& out) {
  const size_t digits = std::min(word.find_first_of("-0123456789"), word.size());
  const uint32_t value = read_number(word.substr(digits), text);
  for (size_t i = after; i < Algorithm::kFields.size(); ++i) {
    if (word.compare(0, digits, Algorithm::kFields[i].name) != 0) continue;
    constexpr size_t kSplit = 2;
    if ((value == 0 && i > 0) || (value == UINT32_MAX && i != kSplit)) damaged(text);
    if (Algorithm::kFields[i].bytes == 2 && value > UINT16_MAX) damaged(text);
    out.values[i] = value;
    return i + 1;
  }
  damaged(text);
}

}  // namespace

std::string to_string(const Algorithm& algorithm) {
  std::string text;
  for (size_t i = 0; i < Algorithm::kFields.size(); ++i) {
    if (i > 0 && algorithm.values[i] == 0) continue;
    const uint32_t value = algorithm.values[i];
    text += (i > 0 ? "." : "") + std::string(Algorithm::kFields[i].name);
    text += value == UINT32_MAX ? "-1" : std::to_string(value);
  }
  return text;
}

std::optional<Algorithm> parse_algorithm(const std::string& text) {
  if (text == kHeuristic) return std::nullopt;
  Algorithm out;
  size_t field = 0;
  for (size_t start = 0; start <= text.size();) {
    const size_t end = std::min(text.find('.', start), text.size());
    const bool first = start == 0;
    const size_t next = read_field(text.substr(start, end - start), field, text, out);
    if (first && next != 1) damaged(text);
    field = next;
    start = end + 1;
  }
  return out;
}

}  // namespace deepjit::cublaslt
