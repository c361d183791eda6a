// Which steps of a program may round their operands to tf32 (eleven bits): the products of a build in tf32.
//
// A provider that has tensor cores for float32 asks this at build and at launch; so does the tuner, which allows such
// steps an error of that rounding.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

#include "program/program.h"

namespace deepjit {

inline constexpr const char* kPrecisionOfBuild = "build.precision";

inline bool is_product_op(std::string_view op) {
  constexpr std::array<std::string_view, 9> ops = {"Conv",           "ConvTranspose", "MatMul",
                                                   "Gemm",           "deepjit.Conv",  "deepjit.ConvTranspose",
                                                   "deepjit.MatMul", "Attention",     "Einsum"};
  return std::find(ops.begin(), ops.end(), op) != ops.end();
}

inline bool may_use_tf32(const Program& program, const Step& step) {
  const auto found = program.metadata.find(kPrecisionOfBuild);
  return found != program.metadata.end() && found->second == "tf32" && is_product_op(step.op);
}

}  // namespace deepjit
