// A profile as JSON, and one of its runs as a trace for Perfetto or chrome://tracing. docs/profile.md has both forms.
#pragma once

#include <nlohmann/json.hpp>

#include "profile/records.h"

namespace deepjit::profile {

nlohmann::ordered_json to_json(const Profile& profile);

// Chrome's trace events: process 1; thread 1 is the host, 2 the device, 3 its copies. Times are exact to a nanosecond,
// sorted, and spans of a thread nest.
nlohmann::ordered_json to_trace(const Profile& profile);

// The longest op first: how much each takes of all.
struct OpTotal {
  std::string op;
  size_t steps = 0;
  double calls = 0, typical_us = 0, share = 0, bytes = 0, flops = 0;
};
std::vector<OpTotal> totals_by_op(const Profile& profile);

}  // namespace deepjit::profile
