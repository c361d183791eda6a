// Which of cuBLASLt's kernels, by its configuration, and as the text that variants are. Pure: needs no library.
//
// "heuristic" stands for whatever the library thinks best when the kernel is made: for engines that were built where no
// GPU could be asked.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

namespace deepjit::cublaslt {

constexpr const char* kHeuristic = "heuristic";

struct Algorithm {
  // In the order of the library's attributes, all of them: what it is called, its number there, and its bytes.
  struct Field {
    const char* name;
    int attribute;
    size_t bytes;
  };
  static constexpr std::array<Field, 9> kFields = {{{"algo", 0, 4},
                                                    {"tile", 1, 4},
                                                    {"split", 2, 4},
                                                    {"reduce", 3, 4},
                                                    {"swizzle", 4, 4},
                                                    {"option", 5, 4},
                                                    {"stages", 6, 4},
                                                    {"inner", 7, 2},
                                                    {"cluster", 8, 2}}};
  std::array<uint32_t, kFields.size()> values = {};

  bool operator==(const Algorithm&) const = default;
};

// "algo66.tile20.split1": fields that are 0 are left out; a split of -1 leaves the division to the kernel.
std::string to_string(const Algorithm& algorithm);
// Nothing for kHeuristic. Throws Error(ENGINE_RANGE) for text that to_string cannot have made.
std::optional<Algorithm> parse_algorithm(const std::string& text);

}  // namespace deepjit::cublaslt
