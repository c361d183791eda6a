// The ONNX operator that a step's op is a form of: "Conv" for "Conv" and for "deepjit.Conv".
#pragma once

#include <string>

namespace deepjit {

inline std::string base_op(const std::string& op) {
  const std::string prefix = "deepjit.";
  return op.rfind(prefix, 0) == 0 ? op.substr(prefix.size()) : op;
}

}  // namespace deepjit
