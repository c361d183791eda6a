#include "import/onnx/external_data.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <vector>

#include "import/onnx/text.h"
#include "onnx-ml.pb.h"

namespace deepjit::importer {

namespace {

struct Descriptor {
  int fd = -1;
  explicit Descriptor(int value) : fd(value) {}
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  void reset(int value) {
    if (fd >= 0) ::close(fd);
    fd = value;
  }
  int release() {
    const int out = fd;
    fd = -1;
    return out;
  }
};

[[noreturn]] void outside(const std::string& location, const std::string& why) {
  throw Error(Code::EXTERNAL_PATH, "external data " + quoted(location) + ": " + why,
              "external data must be a plain file below the folder of the model");
}

std::vector<std::string> split_path(const std::string& location) {
  if (location.empty()) outside(location, "the path is empty");
  if (location.front() == '/') outside(location, "the path is absolute");
  if (location.find('\\') != std::string::npos || location.find('\0') != std::string::npos) {
    outside(location, "the path has a character that is not allowed");
  }
  std::vector<std::string> parts;
  for (size_t from = 0; from <= location.size();) {
    const size_t to = std::min(location.find('/', from), location.size());
    const std::string part = location.substr(from, to - from);
    from = to + 1;
    if (part == "..") outside(location, "the path leaves the folder of the model");
    if (!part.empty() && part != ".") parts.push_back(part);
  }
  if (parts.empty()) outside(location, "the path names no file");
  return parts;
}

int64_t parse_number(const std::string& text, const char* key) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) {
    throw Error(Code::EXTERNAL_RANGE,
                std::string("external data ") + key + " " + quoted(text) + " is not a valid number");
  }
  return value;
}

int64_t memory_bytes() { return static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE); }

[[noreturn]] void cannot_open(const std::string& location, bool last) {
  if (errno == ELOOP || (errno == ENOTDIR && !last)) {
    if (!last) outside(location, "a folder on the path is a symbolic link or no folder");
    throw Error(Code::EXTERNAL_NOT_REGULAR_FILE, "external data " + quoted(location) + " is a symbolic link");
  }
  throw Error(Code::FILE_NOT_FOUND, "external data " + quoted(location) + " cannot be opened: " + std::strerror(errno));
}

}  // namespace

ExternalData::ExternalData(const ImportOptions& options) : options_(options) {}

ExternalData::~ExternalData() {
  if (file_ >= 0) ::close(file_);
}

void ExternalData::open(const std::string& location) {
  if (file_ >= 0 && location == location_) return;
  if (options_.folder.empty()) {
    throw Error(Code::EXTERNAL_PATH, "external data " + quoted(location) + ": the model has no folder to look in",
                "import the model by its path, or give the folder of its external data");
  }
  const std::vector<std::string> parts = split_path(location);
  Descriptor at(::open(options_.folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (at.fd < 0) throw Error(Code::FILE_NOT_FOUND, "folder " + quoted(options_.folder) + " cannot be opened");
  for (size_t i = 0; i < parts.size(); ++i) {
    const bool last = i + 1 == parts.size();
    // Non-blocking, so that a pipe cannot hold the import.
    const int flags = O_RDONLY | O_NOFOLLOW | O_CLOEXEC | (last ? O_NONBLOCK : O_DIRECTORY);
    const int next = ::openat(at.fd, parts[i].c_str(), flags);
    if (next < 0) cannot_open(location, last);
    at.reset(next);
  }
  struct stat info {};
  if (::fstat(at.fd, &info) != 0) cannot_open(location, true);
  if (!S_ISREG(info.st_mode) || info.st_nlink > 1) {
    throw Error(Code::EXTERNAL_NOT_REGULAR_FILE,
                "external data " + quoted(location) +
                    (S_ISREG(info.st_mode) ? " has a second hard link" : " is not a plain file"));
  }
  if (file_ >= 0) ::close(file_);
  file_ = at.release();
  file_size_ = info.st_size;
  location_ = location;
}

void ExternalData::locate(const onnx::TensorProto& proto, int64_t bytes) {
  std::string location;
  int64_t offset = 0;
  int64_t length = bytes;
  for (const auto& entry : proto.external_data()) {
    if (entry.key() == "location") location = entry.value();
    if (entry.key() == "offset") offset = parse_number(entry.value(), "offset");
    if (entry.key() == "length") length = parse_number(entry.value(), "length");
  }
  open(location);
  auto out_of_range = [&](const std::string& why) {
    throw Error(Code::EXTERNAL_RANGE, "external data " + quoted(location) + ": " + why);
  };
  if (length != bytes) {
    out_of_range("length is " + std::to_string(length) + ", type and shape need " + std::to_string(bytes) + " bytes");
  }
  if (offset > file_size_ || bytes > file_size_ - offset) {
    out_of_range(std::to_string(bytes) + " bytes at offset " + std::to_string(offset) +
                 " are past the end of the file (" + std::to_string(file_size_) + " bytes)");
  }
  total_ = checked_add(total_, bytes);
  if (total_ > options_.max_external_bytes) {
    throw Error(Code::LIMIT, "external data is more than " + std::to_string(options_.max_external_bytes) + " bytes");
  }
  // A file of holes claims what it likes, and the system hands out more memory than there is.
  if (total_ > memory_bytes()) {
    throw Error(Code::HOST_OOM, "external data is " + std::to_string(total_) + " bytes, this machine has " +
                                    std::to_string(memory_bytes()));
  }
  offset_ = offset;
  bytes_ = bytes;
}

void ExternalData::read(void* to) {
  int64_t done = 0;
  while (done < bytes_) {
    const ssize_t n = ::pread(file_, static_cast<char*>(to) + done, static_cast<size_t>(bytes_ - done), offset_ + done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) throw Error(Code::EXTERNAL_RANGE, "external data " + quoted(location_) + " cannot be read to its end");
    done += n;
  }
}

}  // namespace deepjit::importer
