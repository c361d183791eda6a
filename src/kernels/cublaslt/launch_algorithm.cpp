#include "base/error.h"
#include "kernels/cublaslt/algorithm.h"

namespace deepjit::cublaslt {

namespace {

[[noreturn]] void damaged(const std::string& text) {
  throw Error(Code::ENGINE_RANGE, "\"" + text + "\" names no algorithm of cuBLASLt");
}

// Sets the field that `word` tells, which must come behind field `after`. Its place.
size_t read_field(const std::string& word, size_t after, const std::string& text, Algorithm& out) {
  const size_t digits = word.find_first_of("0123456789");
  if (digits == std::string::npos || word.size() - digits > 9 || word[digits] == '0') {
    if (word != "algo0") damaged(text);
  }
  if (word.find_first_not_of("0123456789", digits) != std::string::npos) damaged(text);
  for (size_t i = after; i < Algorithm::kFields.size(); ++i) {
    if (word.compare(0, digits, Algorithm::kFields[i].name) != 0) continue;
    out.values[i] = static_cast<uint32_t>(std::stoul(word.substr(digits)));
    if (Algorithm::kFields[i].bytes == 2 && out.values[i] > UINT16_MAX) damaged(text);
    return i + 1;
  }
  damaged(text);
}

}  // namespace

std::string to_string(const Algorithm& algorithm) {
  std::string text;
  for (size_t i = 0; i < Algorithm::kFields.size(); ++i) {
    if (i > 0 && algorithm.values[i] == 0) continue;
    text += (i > 0 ? "." : "") + std::string(Algorithm::kFields[i].name) + std::to_string(algorithm.values[i]);
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
