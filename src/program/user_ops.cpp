#include "program/user_ops.h"

#include <algorithm>

namespace deepjit {

namespace {

// Names on lines of their own; a line or a backslash within one is written with a backslash.
std::string lines_of(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) {
    for (char c : name) {
      if (c == '\\' || c == '\n') text += '\\';
      text += c == '\n' ? 'n' : c;
    }
    text += '\n';
  }
  return text;
}

std::vector<std::string> names_of(const std::string& lines) {
  std::vector<std::string> names(1);
  for (size_t i = 0; i < lines.size(); ++i) {
    if (lines[i] == '\n') {
      names.emplace_back();
    } else if (lines[i] == '\\' && i + 1 < lines.size()) {
      names.back() += lines[++i] == 'n' ? '\n' : lines[i];
    } else {
      names.back() += lines[i];
    }
  }
  names.pop_back();  // behind the last line
  return names;
}

}  // namespace

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
