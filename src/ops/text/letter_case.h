// Lower and upper case of UTF-8 text in any script, the same under every locale.
//
// A character whose other case is more than one character (the German sharp s) stays as it is, and so does what
// depends on a language or a position (the Turkish i, the Greek final sigma) beyond the plain mapping. Bytes that
// are not valid UTF-8 pass through.
#pragma once

#include <string>

namespace deepjit {

std::string lower_case(const std::string& text);
std::string upper_case(const std::string& text);

}  // namespace deepjit
