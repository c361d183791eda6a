// What is known of integers that index: the bounds of a value, and the operand whose elements it has.
//
// An index that a kernel reads outside of a tensor is an error that the user must get. So a Gather is generated where
// its indices are proved to lie inside, or where they are elements of one whole operand, which the launch can look
// through before the kernel runs.
#pragma once

#include <optional>

#include "codegen/region/region.h"

namespace deepjit {

struct IndexRange {
  Dim least, most;  // inclusive
};

// The bounds of an integer value of the region, for all shapes and data; nothing where none are known.
std::optional<IndexRange> range_of(const Region& region, int value);

// The value from outside whose elements, each at least once and no others, the value has; -1 when there is none.
int whole_source(const Region& region, int value);

// Is a <= b for all shapes?
bool never_above(const Dim& a, const Dim& b);

}  // namespace deepjit
