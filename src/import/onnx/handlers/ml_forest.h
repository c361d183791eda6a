// Decision trees on their way from ONNX's attributes to deepjit.TreeEnsemble.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "import/onnx/node_import.h"

namespace deepjit::importer {

// A child or root is a branch from 0 on, or ~leaf.
struct Branch {
  int32_t feature = 0;
  int32_t mode = 0;
  int32_t set = 0;
  double split = 0;
  int64_t yes = 0;
  int64_t no = 0;
};

struct Forest {
  std::vector<Branch> branches;
  std::vector<int64_t> roots;
  std::vector<std::vector<std::pair<int32_t, double>>> leaves;  // votes: target, weight
  std::vector<std::vector<double>> sets;
  std::vector<double> base;  // for each target
  std::string aggregate = "SUM";
};

// Throws Error(ATTRIBUTE).
[[noreturn]] void malformed_trees(const std::string& why);
int32_t to_int32(int64_t value, const char* what);  // from 0 on

// deepjit.TreeEnsemble over `x`, which has type `dtype`. Nodes are put in an order where children follow their parents,
// which also shows that there is no cycle; all indices of `forest` must be in range.
Value* emit_forest(NodeImport& node, const Forest& forest, Value* x, DType dtype);

}  // namespace deepjit::importer
