// The parts of the movement and view families, one a file, and the arithmetic they share with other code.
#pragma once

#include "ops/op.h"

namespace deepjit {

void add_transpose_ops(
    OpRegistry& registry);  // transpose.cpp: Transpose, SpaceToDepth, DepthToSpace, ReverseSequence, Trilu
void add_slice_ops(OpRegistry& registry);    // slice.cpp: Slice
void add_concat_ops(OpRegistry& registry);   // concat.cpp: Concat, Split
void add_pad_ops(OpRegistry& registry);      // pad.cpp: Pad, CenterCropPad
void add_expand_ops(OpRegistry& registry);   // expand.cpp: Expand, Tile
void add_reshape_ops(OpRegistry& registry);  // reshape.cpp: Reshape

// One axis of a Slice after clamping: elements start, start + step, ... (`length` of them).
struct SliceRange {
  int64_t start = 0;
  int64_t step = 1;
  int64_t length = 0;
};
SliceRange resolve_slice(int64_t dim, int64_t start, int64_t end, int64_t step);

// The number of elements that start:end:step takes of a symbolic dim; nothing when a sign is unknown.
std::optional<Dim> slice_length(const Dim& dim, const Dim& start, const Dim& end, int64_t step);

// Shapes of at most this many elements are worth tracking as values.
constexpr int64_t kMaxTrackedValues = 256;

}  // namespace deepjit
