// Copies between two strided views of memory: what Transpose, Slice, Expand, Tile, Concat and Pad boil down to.
//
// A copy is a nest of loops, outermost first; strides are in elements and may be zero or negative on the
// source side. The nest is simplified first, then runs become memcpy, and a transposed inner pair of loops
// goes through small blocks.
#pragma once

#include <string>
#include <vector>

#include "base/tensor.h"
#include "base/visit.h"

namespace deepjit {

struct CopyLoop {
  int64_t size = 1;
  int64_t from = 0;  // source stride
  int64_t to = 0;    // destination stride
};
using CopyLoops = std::vector<CopyLoop>;

// Drops loops of one step and joins neighbours that walk memory as one loop.
CopyLoops collapse_loops(const CopyLoops& loops);

// The loops that write a dense row-major tensor of `dims`, reading with `from_strides`.
CopyLoops dense_loops(const Dims& dims, const Dims& from_strides);

// T is uint8_t, uint16_t, uint32_t, uint64_t or std::string.
template <typename T>
void copy_strided(const CopyLoops& loops, const T* from, T* to);

// Calls f with the type that moves elements of `dtype`: an unsigned integer of its size, or std::string.
template <typename F>
void visit_movable(DType dtype, F&& f) {
  if (dtype == DType::STRING) return f.template operator()<std::string>();
  visit_storage(dtype, f);
}

// `count` consecutive elements.
template <typename T>
inline void copy_run(const T* from, T* to, int64_t count) {
  if constexpr (std::is_same_v<T, std::string>) {
    for (int64_t i = 0; i < count; ++i) to[i] = from[i];
  } else if (count > 0) {
    std::memcpy(to, from, static_cast<size_t>(count) * sizeof(T));
  }
}

// The elements of `from` at offset + sum(index * strides), written densely to `to`, of shape `dims`.
void copy_view(const TensorView& from, int64_t offset, const Dims& from_strides, const TensorView& to);

// The product of dims[begin, end).
int64_t count_range(const Dims& dims, int begin, int end);

}  // namespace deepjit
