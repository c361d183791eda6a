#include "tune/cache.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/sha256.h"

namespace deepjit {

namespace fs = std::filesystem;

std::string TuningCache::path_of(const std::string& fingerprint) const {
  return folder_ + "/" + fingerprint.substr(0, 2) + "/" + fingerprint + ".tune";
}

std::optional<Choice> TuningCache::find(const std::string& fingerprint) const {
  if (folder_.empty()) return std::nullopt;
  const std::string path = path_of(fingerprint);
  std::ifstream in(path, std::ios::binary);
  if (!in) return std::nullopt;
  std::stringstream all;
  all << in.rdbuf();
  const std::string text = all.str();
  // First line: hash of the rest.
  const size_t line = text.find('\n');
  if (line != std::string::npos && text.substr(0, line) == sha256_hex(text.substr(line + 1))) {
    try {
      const auto choices = read_lock(text.substr(line + 1));
      if (auto it = choices.find(fingerprint); it != choices.end()) return it->second;
    } catch (const Error&) {
    }
  }
  std::error_code ignored;
  fs::create_directories(folder_ + "/quarantine", ignored);
  fs::rename(path, folder_ + "/quarantine/" + fingerprint + ".tune", ignored);
  return std::nullopt;
}

void TuningCache::store(const Choice& choice, const std::string& fingerprint_text) const {
  if (folder_.empty()) return;
  const std::string path = path_of(choice.fingerprint);
  std::error_code ignored;
  fs::create_directories(fs::path(path).parent_path(), ignored);
  const std::string body = write_lock({choice}) + "# " + fingerprint_text + "\n";
  const std::string text = sha256_hex(body) + "\n" + body;
  const std::string temporary = path + ".tmp" + std::to_string(getpid());
  const int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return;
  const bool written = write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()) && fsync(fd) == 0;
  close(fd);
  if (!written || std::rename(temporary.c_str(), path.c_str()) != 0) std::remove(temporary.c_str());
}

}  // namespace deepjit
