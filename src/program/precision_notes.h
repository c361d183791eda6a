// In which type each step computes, and why.
//
// The metadata hold it: "precision.nodes.REASON" is the list of ONNX nodes that the reason is of, as the origins of
// steps have them. A reason starts with the type: "fp16: convolution", "fp32: a state goes through many steps".
#pragma once

#include <map>
#include <string>
#include <vector>

#include "program/program.h"

namespace deepjit {

inline constexpr const char* kPrecisionKey = "precision.nodes.";

void note_precision(Program& program, const std::string& reason, const std::vector<std::string>& nodes);

class PrecisionReasons {
 public:
  explicit PrecisionReasons(const Program& program);
  bool empty() const { return reasons_.empty(); }
  // Those of the step's origins, each once, in their order.
  std::vector<std::string> of(const Step& step) const;
  // For people: "fp16: convolution; fp32: sums many values".
  std::string text(const Step& step) const;

 private:
  std::map<std::string, std::string> reasons_;  // by node
};

}  // namespace deepjit
