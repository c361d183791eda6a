#include "base/record_store.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/sha256.h"

namespace deepjit {

namespace fs = std::filesystem;

namespace {

bool write_all(int fd, const std::string& content) {
  for (size_t done = 0; done < content.size();) {
    const ssize_t n = write(fd, content.data() + done, content.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    done += static_cast<size_t>(n);
  }
  return true;
}

}  // namespace

bool write_whole_file(const std::string& path, const std::string& content) {
  static std::atomic<unsigned> count{0};  // threads of one process write side by side
  const std::string temporary = path + ".tmp" + std::to_string(getpid()) + "." + std::to_string(count++);
  const int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (fd < 0) return false;
  const bool written = write_all(fd, content) && fsync(fd) == 0;
  close(fd);
  if (written && std::rename(temporary.c_str(), path.c_str()) == 0) return true;
  std::remove(temporary.c_str());
  return false;
}

std::string RecordStore::path_of(const std::string& key, const std::string& kind) const {
  return folder_ + "/" + key.substr(0, 2) + "/" + key + "." + kind;
}

std::optional<std::string> RecordStore::find(const std::string& key, const std::string& kind) const {
  if (!enabled()) return std::nullopt;
  std::ifstream in(path_of(key, kind), std::ios::binary);
  if (!in) return std::nullopt;
  std::stringstream all;
  all << in.rdbuf();
  const std::string text = all.str();
  // First line: hash of the key and of all that follows.
  const size_t line = text.find('\n');
  if (line != std::string::npos && text.substr(0, line) == sha256_hex(key + text.substr(line + 1))) {
    return text.substr(line + 1);
  }
  reject(key, kind);
  return std::nullopt;
}

void RecordStore::store(const std::string& key, const std::string& kind, const std::string& content) const {
  if (!enabled()) return;
  std::error_code ignored;
  fs::create_directories(fs::path(path_of(key, kind)).parent_path(), ignored);
  write_whole_file(path_of(key, kind), sha256_hex(key + content) + "\n" + content);
}

void RecordStore::reject(const std::string& key, const std::string& kind) const {
  std::error_code ignored;
  fs::create_directories(folder_ + "/quarantine", ignored);
  fs::rename(path_of(key, kind), folder_ + "/quarantine/" + key + "." + kind, ignored);
}

}  // namespace deepjit
