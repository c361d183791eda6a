// The parts of the index family, one a file, and their checks.
#pragma once

#include "ops/op.h"

namespace deepjit {

void add_gather_ops(OpRegistry& registry);   // gather.cpp: Gather, GatherElements, GatherND
void add_scatter_ops(OpRegistry& registry);  // scatter.cpp: ScatterElements, Scatter, ScatterND, TensorScatter
void add_select_ops(OpRegistry& registry);   // select.cpp: NonZero, Compress
void add_unique_ops(OpRegistry& registry);   // unique.cpp: Unique

[[noreturn]] void throw_index_range(std::string_view op, int64_t index, int64_t limit);

// `index` in [-limit, limit) made non-negative, or Error(INDEX_RANGE).
inline int64_t wrap_index(std::string_view op, int64_t index, int64_t limit) {
  const int64_t wrapped = index < 0 ? index + limit : index;
  if (wrapped < 0 || wrapped >= limit) throw_index_range(op, index, limit);
  return wrapped;
}

}  // namespace deepjit
