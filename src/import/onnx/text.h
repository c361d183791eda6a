// Text checks for names that come from a model.
#pragma once

#include <string>
#include <string_view>

namespace deepjit::importer {

bool is_utf8(std::string_view text);
// Throws UTF8 for invalid text and LIMIT for a name of absurd length; `what` says whose name it is.
void check_name(std::string_view name, std::string_view what);
// A name made from others, which may be long, without its front: the end tells names apart.
std::string shortened(std::string name);
// In double quotes, on one line whatever the bytes are, shortened when long.
std::string quoted(std::string_view name);
// A dim_param as a symbol: letters, digits, '_' and '.', not starting with a digit.
std::string symbol_name(std::string_view dim_param);

}  // namespace deepjit::importer
