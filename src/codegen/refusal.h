// Why something cannot be part of a generated kernel: the rule, the words with the case's own dims and types, and what
// would help. Empty where nothing is in the way.
#pragma once

#include <string>
#include <vector>

#include "base/dim.h"
#include "program/why.h"

namespace deepjit {

struct Refusal {
  Why rule = Why::NONE;
  std::string reason;
  std::string fix = {};        // the smallest change, where more is known than the rule's own
  std::vector<Dim> dims = {};  // the dims it is about: whoever knows the inputs says where they come from

  bool empty() const { return rule == Why::NONE; }
};

}  // namespace deepjit
