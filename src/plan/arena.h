// Lifetimes to arena offsets.
//
// Needs, for each buffer, its size and the first and last step that touches it. Guarantees offsets (multiples
// of 64) such that buffers whose lifetimes meet never overlap. Needs base only: the compiler plans the range's
// maximum with it, and the runtime plans each new shape.
#pragma once

#include <cstddef>
#include <vector>

namespace deepjit {

struct Lifetime {
  size_t bytes = 0;
  int first = 0;  // step that writes it
  int last = 0;   // last step that reads it, >= first
};

struct ArenaLayout {
  std::vector<size_t> offsets;  // one per lifetime
  size_t bytes = 0;             // the arena's size
  size_t lower_bound = 0;       // most bytes alive at one step: no layout can be smaller
};

// Places the largest buffers first, each into the tightest gap that is free during its whole lifetime.
ArenaLayout plan_arena(const std::vector<Lifetime>& lifetimes);

}  // namespace deepjit
