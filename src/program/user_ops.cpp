#include "program/user_ops.h"

#include <algorithm>

#include "program/name_lines.h"

namespace deepjit {

void note_user_op(Program& program, const std::string& name, const std::string& definition,
                  const std::vector<std::string>& nodes) {
  program.metadata[kUserOpKey + name] = definition;
  program.metadata[kUserOpNodesKey + name] = lines_of(nodes);
}

UserOpNames::UserOpNames(const Program& program) {
  const std::string prefix = kUserOpNodesKey;
  for (auto it = program.metadata.lower_bound(prefix); it != program.metadata.end(); ++it) {
    if (it->first.rfind(prefix, 0) != 0) break;
    for (std::string& node : names_of(it->second)) ops_.emplace(std::move(node), it->first.substr(prefix.size()));
  }
}

std::vector<std::string> UserOpNames::of(const Step& step) const {
  std::vector<std::string> names;
  for (const std::string& origin : step.origins) {
    const auto found = ops_.find(origin);
    if (found == ops_.end() || std::count(names.begin(), names.end(), found->second) != 0) continue;
    names.push_back(found->second);
  }
  return names;
}

std::string of_user_ops(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? " of " : ", ") + name;
  return text;
}

}  // namespace deepjit
