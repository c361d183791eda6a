// Lists of node names as one text, for a program's metadata.
#pragma once

#include <string>
#include <vector>

namespace deepjit {

// Names on lines of their own; a line or a backslash within one is written with a backslash.
std::string lines_of(const std::vector<std::string>& names);
std::vector<std::string> names_of(const std::string& lines);

}  // namespace deepjit
