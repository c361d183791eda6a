// Where a value is read, as a function of the point in the kernel's box: one index expression a dim.
//
// An expression is affine over the axes of the box, plus parts that are no multiple of an axis: offsets, and an index
// that an instruction computes. Views are functions of coordinates: what a Slice reads at i is its input at
// start + i * step. All sizes are symbolic, so a map holds for every shape.
#pragma once

#include <optional>
#include <vector>

#include "base/dim.h"
#include "codegen/ir_builder.h"

namespace deepjit {

struct Coord {
  struct Term {
    int axis;
    Dim coef;
    bool operator==(const Term&) const = default;
  };
  std::vector<Term> terms;    // by axis
  std::vector<Dim> offset;    // added up; each part is a product of sizes
  IrBuilder::Ref index = -1;  // an INT64 instruction, added

  bool operator==(const Coord&) const = default;
  bool is_affine() const { return index < 0; }
  bool moves(int axis) const;
};

using Coords = std::vector<Coord>;

Coord operator+(Coord a, const Coord& b);  // at most one of them has an index
Coord scaled(Coord c, const Dim& factor);  // of an affine one
Coord shifted(Coord c, const Dim& by);

// The axes that the coordinates read, without repeats.
std::vector<int> axes_of(const Coords& coords);

// A coordinate split at `size`: c = quotient * size + rest with 0 <= rest < size, for all points of a box with these
// extents. When that is only possible after an axis is split in two, `cut` says which one and how large the inner part
// becomes; nothing at all when no such split is known.
struct Division {
  Coord quotient, rest;
  struct Cut {
    int axis;
    Dim inner;
  };
  std::optional<Cut> cut;
};
std::optional<Division> divide(const Coord& c, const Dim& size, const std::vector<Dim>& extents);

// The axes, outermost first, that the coordinate counts through like an odometer, from 0 up to `size` - 1; nothing when
// it does not walk the whole of a dim of that size in order.
std::optional<std::vector<int>> walks_whole(const Coord& c, const Dim& size, const std::vector<Dim>& extents);

}  // namespace deepjit
