// Byte mutations without a coverage-guided fuzzer, for the bounded run of the tests.
#include <algorithm>
#include <cstring>

#include "harness.h"

namespace deepjit::fuzz {

namespace {

constexpr int64_t kNumbers[] = {0,         1,         2,         -1,        -2,        127,          128,
                                255,       256,       32767,     65535,     65536,     INT32_MAX,    INT32_MIN,
                                1LL << 31, 1LL << 32, 1LL << 40, INT64_MAX, INT64_MIN, INT64_MIN + 1};

size_t below(std::mt19937_64& random, size_t limit) { return limit == 0 ? 0 : random() % limit; }

void change(Input& input, std::span<const uint8_t> other, std::mt19937_64& random) {
  if (input.empty()) input.push_back(0);
  const size_t at = below(random, input.size());
  const size_t length = std::min(input.size() - at, 1 + below(random, 16));
  const auto from = input.begin() + static_cast<std::ptrdiff_t>(at);
  switch (below(random, 7)) {
    case 0:
      input[at] ^= static_cast<uint8_t>(1u << below(random, 8));
      return;
    case 1:
      input[at] = static_cast<uint8_t>(random());
      return;
    case 2: {
      const int64_t number = kNumbers[below(random, std::size(kNumbers))];
      std::memcpy(input.data() + at, &number, std::min<size_t>(input.size() - at, 1u << below(random, 4)));
      return;
    }
    case 3:
      input.erase(from, from + static_cast<std::ptrdiff_t>(length));
      return;
    case 4: {
      const Input piece(from, from + static_cast<std::ptrdiff_t>(length));
      input.insert(input.begin() + static_cast<std::ptrdiff_t>(below(random, input.size())), piece.begin(),
                   piece.end());
      return;
    }
    case 5: {
      if (other.empty()) return;
      const size_t start = below(random, other.size());
      const auto piece = other.subspan(start, std::min(other.size() - start, 1 + below(random, 64)));
      std::copy_n(piece.begin(), std::min(piece.size(), input.size() - at), from);
      return;
    }
    default:
      input[at] = static_cast<uint8_t>(input[at] + (below(random, 2) == 0 ? 1 : 255));
  }
}

}  // namespace

Input mutate_bytes(Input input, std::span<const uint8_t> other, std::mt19937_64& random) {
  for (size_t n = 1 + below(random, 4); n > 0; --n) change(input, other, random);
  return input;
}

}  // namespace deepjit::fuzz
