// Float to integer without undefined behaviour: truncates; NaN gives 0; 32 and 64 bits saturate; narrower
// and unsigned 32-bit targets wrap, like a conversion through a wider signed integer.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

namespace deepjit {

template <typename To, typename From>
To saturate_signed(From x) {
  constexpr From kLimit = static_cast<From>(uint64_t{1} << (sizeof(To) * 8 - 1));  // exact: a power of two
  if (!(x == x)) return 0;
  if (x >= kLimit) return std::numeric_limits<To>::max();
  if (x < -kLimit) return std::numeric_limits<To>::min();
  return static_cast<To>(x);
}

template <typename To, typename From>
To float_to_int(From x) {
  if constexpr (sizeof(To) <= 2 || std::is_same_v<To, int32_t>) {
    return static_cast<To>(saturate_signed<int32_t>(x));
  } else if constexpr (std::is_same_v<To, uint64_t>) {
    constexpr From kHalf = static_cast<From>(9223372036854775808.0);
    if (x >= kHalf + kHalf) return std::numeric_limits<uint64_t>::max();
    if (x >= kHalf) return static_cast<uint64_t>(x);
    return static_cast<uint64_t>(saturate_signed<int64_t>(x));
  } else {
    return static_cast<To>(saturate_signed<int64_t>(x));
  }
}

}  // namespace deepjit
