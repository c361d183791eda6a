#include "cli/files.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/error.h"

namespace deepjit::cli {

std::string read_file(const std::string& path) {
  std::error_code ignored;
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  if (!in || std::filesystem::is_directory(path, ignored)) {
    const char* why = in ? "it is a folder" : std::strerror(errno);
    throw Error(Code::FILE_NOT_FOUND, "cannot open \"" + path + "\": " + why, "check the path and its permissions");
  }
  std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  if (in.bad()) throw Error(Code::FILE_NOT_FOUND, "cannot read \"" + path + "\"");
  return bytes;
}

void write_file(const std::string& path, const std::string& bytes) {
  const std::string temporary = path + ".tmp" + std::to_string(getpid());
  std::ofstream out(temporary, std::ios::binary | std::ios::trunc);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  out.close();
  if (!out || std::rename(temporary.c_str(), path.c_str()) != 0) {
    const std::string why = std::strerror(errno);
    std::remove(temporary.c_str());
    throw Error(Code::DISK_FULL, "cannot write \"" + path + "\": " + why,
                "check the folder, its permissions and space");
  }
}

}  // namespace deepjit::cli
