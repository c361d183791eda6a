#include "compiler/option_text.h"

#include <algorithm>

#include "base/error.h"
#include "passes/pipeline.h"

namespace deepjit {

std::vector<std::string> switchable_passes() {
  std::vector<std::string> names;
  for (const Pass& pass : default_pipeline(3)) {
    if (std::find(names.begin(), names.end(), pass.name) == names.end()) names.push_back(pass.name);
  }
  names.emplace_back(kRegions);
  names.emplace_back(kPrologues);
  names.emplace_back(kCombos);
  return names;
}

void check_switchable(const std::string& name) {
  const std::vector<std::string> names = switchable_passes();
  if (std::find(names.begin(), names.end(), name) != names.end()) return;
  std::string list;
  for (const std::string& known : names) list += (list.empty() ? "" : ", ") + known;
  throw Error(Code::ARGUMENT, "there is no pass \"" + name + "\" to switch off", "the passes are " + list);
}

std::string names_text(const std::set<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

std::set<std::string> parse_names(const std::string& text) {
  std::set<std::string> names;
  for (size_t start = 0; start < text.size();) {
    const size_t end = std::min(text.find(", ", start), text.size());
    names.insert(text.substr(start, end - start));
    start = end + 2;
  }
  return names;
}

std::vector<int> parse_targets(const std::string& text) {
  std::vector<int> targets;
  size_t start = 0;
  while (start < text.size()) {
    const size_t end = std::min(text.find(',', start), text.size());
    std::string word = text.substr(start, end - start);
    word.erase(0, word.find_first_not_of(' '));
    if (word.rfind("sm_", 0) == 0) word = word.substr(3);
    if (word.size() < 2 || word.size() > 3 || word.find_first_not_of("0123456789") != std::string::npos) {
      throw Error(Code::ARGUMENT, "\"" + text + "\" is no list of targets", "write it like sm_80,sm_90");
    }
    targets.push_back(std::stoi(word));
    start = end + 1;
  }
  std::sort(targets.begin(), targets.end());
  targets.erase(std::unique(targets.begin(), targets.end()), targets.end());
  return targets;
}

std::string targets_text(const std::vector<int>& targets) {
  std::string text;
  for (int target : targets) text += (text.empty() ? "sm_" : ", sm_") + std::to_string(target);
  return text;
}

Dims parse_shape(const std::string& text) {
  Dims dims;
  size_t start = 0;
  while (start <= text.size()) {
    const size_t end = std::min(text.find('x', start), text.size());
    const std::string word = text.substr(start, end - start);
    if (word.empty() || word.size() > 15 || word.find_first_not_of("0123456789") != std::string::npos) {
      throw Error(Code::ARGUMENT, "\"" + text + "\" is not a shape", "write it like 1x3x224x224");
    }
    dims.push_back(std::stoll(word));
    start = end + 1;
  }
  return dims;
}

std::pair<std::string, ShapeRange> parse_range(const std::string& text) {
  const size_t equals = text.rfind('=');
  if (equals == std::string::npos || equals == 0) {
    throw Error(Code::ARGUMENT, "range \"" + text + "\" is not understood",
                "write NAME=min:opt:max, e.g. x=1x80:4x80:16x80");
  }
  std::vector<Dims> shapes;
  const std::string rest = text.substr(equals + 1);
  size_t start = 0;
  while (start <= rest.size()) {
    const size_t end = std::min(rest.find(':', start), rest.size());
    shapes.push_back(parse_shape(rest.substr(start, end - start)));
    start = end + 1;
  }
  if (shapes.size() != 1 && shapes.size() != 3) {
    throw Error(Code::ARGUMENT, "range \"" + text + "\" needs one shape or three (min:opt:max)");
  }
  return {text.substr(0, equals), {shapes.front(), shapes[shapes.size() / 2], shapes.back()}};
}

void add_range(const std::string& input, const ShapeRange& range, std::map<std::string, ShapeRange>& ranges,
               std::map<std::string, std::vector<ShapeRange>>& more_ranges) {
  if (!ranges.emplace(input, range).second) more_ranges[input].push_back(range);
}

}  // namespace deepjit
