#include "base/broadcast.h"

#include <optional>

namespace deepjit {

namespace {

// The c of min(b, c): its value where b is large.
std::optional<int64_t> value_at_large_sizes(const Dim& dim) {
  try {
    return dim.evaluate([](const std::string&) { return std::optional(int64_t{1} << 40); });
  } catch (const Error&) {  // a product of sizes
    return std::nullopt;
  }
}

}  // namespace

bool agrees_where_valid(const Dim& a, const Dim& b) {
  if (a == b) return true;
  const auto most = value_at_large_sizes(a);
  return most && *most > 1 && min(b, Dim(*most)) == a;
}

}  // namespace deepjit
