#include "program/precision_notes.h"

#include <algorithm>

#include "program/name_lines.h"

namespace deepjit {

void note_precision(Program& program, const std::string& reason, const std::vector<std::string>& nodes) {
  program.metadata[kPrecisionKey + reason] = lines_of(nodes);
}

PrecisionReasons::PrecisionReasons(const Program& program) {
  const std::string prefix = kPrecisionKey;
  for (auto it = program.metadata.lower_bound(prefix); it != program.metadata.end(); ++it) {
    if (it->first.rfind(prefix, 0) != 0) break;
    for (std::string& node : names_of(it->second)) reasons_.emplace(std::move(node), it->first.substr(prefix.size()));
  }
}

std::vector<std::string> PrecisionReasons::of(const Step& step) const {
  std::vector<std::string> reasons;
  for (const std::string& origin : step.origins) {
    const auto found = reasons_.find(origin);
    if (found == reasons_.end() || std::count(reasons.begin(), reasons.end(), found->second) != 0) continue;
    reasons.push_back(found->second);
  }
  return reasons;
}

std::string PrecisionReasons::text(const Step& step) const {
  std::string text;
  for (const std::string& reason : of(step)) text += (text.empty() ? "" : "; ") + reason;
  return text;
}

}  // namespace deepjit
