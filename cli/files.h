// Whole files, for the small ones that the command line reads and writes.
#pragma once

#include <string>

namespace deepjit::cli {

// Throws FILE_NOT_FOUND.
std::string read_file(const std::string& path);
// Writes by temporary file and rename: the path holds the old text or all of the new one. Throws DISK_FULL.
void write_file(const std::string& path, const std::string& bytes);

}  // namespace deepjit::cli
