#include <algorithm>

#include "base/error.h"
#include "kernels/cudnn/choice.h"

namespace deepjit::cudnn {

namespace {

constexpr size_t kMostDigits = 12;
constexpr size_t kMostKnobs = 64;

[[noreturn]] void damaged(const std::string& text) {
  throw Error(Code::ENGINE_RANGE, "\"" + text + "\" names no engine of cuDNN");
}

// The number at `at`, which moves behind it.
int64_t read_number(const std::string& text, size_t& at) {
  const size_t start = at;
  while (at < text.size() && text[at] >= '0' && text[at] <= '9') ++at;
  const size_t digits = at - start;
  if (digits == 0 || digits > kMostDigits || (digits > 1 && text[start] == '0')) damaged(text);
  return std::stoll(text.substr(start, digits));
}

void expect(const std::string& text, size_t& at, const std::string& word) {
  if (text.compare(at, word.size(), word) != 0) damaged(text);
  at += word.size();
}

}  // namespace

std::string to_string(const EngineChoice& choice) {
  std::string text = "eng" + std::to_string(choice.engine);
  for (const auto& [type, value] : choice.knobs) text += ".k" + std::to_string(type) + "=" + std::to_string(value);
  return text;
}

std::optional<EngineChoice> parse_choice(const std::string& text) {
  if (text == kHeuristic) return std::nullopt;
  EngineChoice out;
  size_t at = 0;
  expect(text, at, "eng");
  out.engine = read_number(text, at);
  while (at < text.size()) {
    expect(text, at, ".k");
    const int64_t type = read_number(text, at);
    expect(text, at, "=");
    const int64_t value = read_number(text, at);
    if (out.knobs.size() == kMostKnobs || (!out.knobs.empty() && type <= out.knobs.back().first)) damaged(text);
    out.knobs.emplace_back(type, value);
  }
  return out;
}

}  // namespace deepjit::cudnn
