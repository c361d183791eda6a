#include "program/name_lines.h"

namespace deepjit {

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

}  // namespace deepjit
