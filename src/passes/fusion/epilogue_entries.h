// Pointwise nodes as entries of a fused op's epilogue (ops/epilogue.h). Part of fuse_epilogue.
#pragma once

#include <optional>
#include <string>

#include "graph/graph.h"

namespace deepjit {

struct EpilogueEntry {
  std::string text;          // "Relu", "Linear(2,0)"; for an operand only the name: "Add"
  Value* operand = nullptr;  // the other tensor
};

// What `node` does to `v` in place, as an entry; nothing when it has no such form or enlarges v.
std::optional<EpilogueEntry> as_epilogue_entry(const Node& node, const Value* v);
// Two Linear entries as one when that is exact (a scale, then a shift).
std::optional<std::string> merge_linear(const std::string& first, const std::string& second);

}  // namespace deepjit
