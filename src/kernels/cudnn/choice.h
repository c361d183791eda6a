// Which of cuDNN's engines, with its knobs, and as the text that variants are. Pure: needs no library.
//
// "heuristic" stands for whatever the library thinks best when the kernel is made: for engines that were built where no
// GPU could be asked.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace deepjit::cudnn {

constexpr const char* kHeuristic = "heuristic";

struct EngineChoice {
  int64_t engine = 0;
  std::vector<std::pair<int64_t, int64_t>> knobs;  // type and value, by type
  bool operator==(const EngineChoice&) const = default;
};

// "eng34.k2=17.k3=1".
std::string to_string(const EngineChoice& choice);
// Nothing for kHeuristic. Throws Error(ENGINE_RANGE) for text that to_string cannot have made.
std::optional<EngineChoice> parse_choice(const std::string& text);

}  // namespace deepjit::cudnn
