// The families of ops that the oneDNN provider runs. Each is one launch_<family>.cpp and one line in launch.cpp.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "kernels/onednn/primitive_kernel.h"

namespace deepjit::onednn {

// Variants of a step, best guess first, or why there are none.
struct Variants {
  std::vector<std::string> names;
  std::string reason;
};

struct Family {
  std::vector<std::string> ops;
  Variants (*variants)(const StepShape& shape);
  // nullptr when oneDNN cannot run the step at these shapes.
  std::unique_ptr<PrimitiveKernel> (*make)(const StepShape& shape, const Tactic& tactic);
};

Family conv_family();     // Conv, ConvTranspose
Family matmul_family();   // MatMul, Gemm
Family eltwise_family();  // one input
Family binary_family();   // Add, Mul ...

// The family of the step's op, or nullptr.
const Family* find_family(const std::string& op);

// What keeps oneDNN from a step whatever its op: an element type, an empty operand. "" when nothing does.
std::string common_obstacle(const StepShape& shape, DType dtype);

// The op's name without our prefix: "Conv" for "deepjit.Conv".
std::string base_op(const Step& step);

inline bool is_reference_impl(const std::string& name) { return name.rfind("ref", 0) == 0; }

constexpr size_t kMaxImpls = 3;

// Appends prefix + name of up to kMaxImpls optimised implementations.
template <typename PrimitiveDesc>
void append_impls(PrimitiveDesc pd, const std::string& prefix, Variants& variants) {
  size_t count = 0;
  if (!pd) return;
  do {
    const std::string name = pd.impl_info_str();
    if (is_reference_impl(name)) continue;
    const std::string full = prefix + name;
    bool known = false;
    for (const std::string& have : variants.names) known = known || have == full;
    if (known) continue;
    variants.names.push_back(full);
    ++count;
  } while (count < kMaxImpls && pd.next_impl());
}

// Moves pd to the implementation called `name`, else to its first optimised one. False when all are references.
template <typename PrimitiveDesc>
bool select_impl(PrimitiveDesc& pd, const std::function<PrimitiveDesc()>& create, const std::string& name) {
  for (const bool exact : {true, false}) {
    pd = create();
    if (!pd) return false;
    do {
      const std::string have = pd.impl_info_str();
      if (exact ? have == name : !is_reference_impl(have)) return true;
    } while (pd.next_impl());
  }
  return false;
}

// "mode/impl" in two.
std::pair<std::string, std::string> split_variant(const std::string& variant);

}  // namespace deepjit::onednn
