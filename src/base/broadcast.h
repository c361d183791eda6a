// Dims that broadcast.
#pragma once

#include "base/dim.h"

namespace deepjit {

// Is `a` equal to `b` wherever the two broadcast? So is what a Slice leaves of a larger constant: min(b, c) with c > 1
// is b, or a mismatch that binding tells.
bool agrees_where_valid(const Dim& a, const Dim& b);

}  // namespace deepjit
