// Views as functions of coordinates: where the input is read, given where the result is wanted.
#pragma once

#include <string>
#include <vector>

#include "codegen/expand.h"
#include "codegen/region/coordinate.h"

namespace deepjit {

// An axis of the box must be cut in two before the region can be one kernel: thrown, and the builder starts again.
using AxisCut = Division::Cut;

// True for ops that a region absorbs as index maps.
bool is_view_op(const std::string& op);

// True for those that also compute, so that a kernel of nothing else pays off.
bool is_computed_view(const std::string& op);

// Why the op is no index map that is known at build; empty when it is one.
Refusal why_not_view(const OpView& op);

Refusal why_not_resize(const OpView& op);  // region_resize.cpp

// The coordinates at which input 0 of a Transpose, Reshape, Flatten, Squeeze, Unsqueeze, Expand, Slice, Tile,
// DepthToSpace or SpaceToDepth is read. Throws Refusal and AxisCut.
Coords view_input(const OpView& op, const Coords& result, const std::vector<Dim>& extents);

// Where the parts of a Concat begin along its axis.
std::vector<Dim> concat_starts(const OpView& op);
int concat_axis(const OpView& op);

// Elements that a Pad adds before and after each dim.
struct PadWidths {
  std::vector<int64_t> before, after;
};
PadWidths pad_widths(const OpView& op);

}  // namespace deepjit
