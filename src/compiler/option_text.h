// What users write for build options: names of passes, lists of GPUs, shapes and ranges.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "program/program.h"

namespace deepjit {

// The names of passes that a build can be told to leave out, in BuildOptions::disabled_passes.
inline constexpr const char* kRegions = "regions";      // the fusion into generated kernels
inline constexpr const char* kPrologues = "prologues";  // pointwise kernels in the products that read them
inline constexpr const char* kCombos = "combos";        // several of those in one launch

// Every pass, and the two above.
std::vector<std::string> switchable_passes();
// Throws Error(ARGUMENT), with the list, for a name that is none.
void check_switchable(const std::string& name);
// "combos, layout_nhwc", and back.
std::string names_text(const std::set<std::string>& names);
std::set<std::string> parse_names(const std::string& text);

// Parses "sm_80,sm_90" or "80, 90". Throws Error(ARGUMENT).
std::vector<int> parse_targets(const std::string& text);
// "sm_80, sm_90"
std::string targets_text(const std::vector<int>& targets);

// Parses "1x3x224x224". Throws Error(ARGUMENT).
Dims parse_shape(const std::string& text);

// Parses "x=1x3x224x224:8x3x224x224:32x3x224x224": min:opt:max, or one shape for all three. Throws Error(ARGUMENT).
std::pair<std::string, ShapeRange> parse_range(const std::string& text);

// The ranges of inputs as a build takes them: an input that comes again starts another range.
void add_range(const std::string& input, const ShapeRange& range, std::map<std::string, ShapeRange>& ranges,
               std::map<std::string, std::vector<ShapeRange>>& more_ranges);

}  // namespace deepjit
