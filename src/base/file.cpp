#include "base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace deepjit {

namespace {

[[noreturn]] void fail(const std::string& path, const std::string& why) {
  throw Error(Code::FILE_NOT_FOUND, "cannot open \"" + path + "\": " + why);
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

int64_t modified(const struct stat& info) {
  return static_cast<int64_t>(info.st_mtim.tv_sec) * 1000000000 + info.st_mtim.tv_nsec;
}

// The descriptor of a plain file. Opened non-blocking, so that a pipe cannot hold us.
int open_plain(const std::string& path, struct stat& info) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) fail(path, std::strerror(errno));
  const bool known = ::fstat(fd, &info) == 0;
  const std::string why = !known ? std::strerror(errno) : !S_ISREG(info.st_mode) ? "it is not a plain file" : "";
  if (why.empty()) return fd;
  ::close(fd);
  fail(path, why);
}

void read_all(int fd, size_t offset, std::span<uint8_t> to, const std::string& path) {
  constexpr size_t kPiece = size_t{1} << 30;  // one read call takes less than 2 GiB
  for (size_t done = 0; done < to.size();) {
    const ssize_t n =
        ::pread(fd, to.data() + done, std::min(to.size() - done, kPiece), static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(path, std::strerror(errno));
    if (n == 0) fail(path, "it got shorter while it was read");
    done += static_cast<size_t>(n);
  }
}

[[noreturn]] void does_not_fit(const std::string& path, size_t size) {
  throw Error(Code::HOST_OOM, "\"" + path + "\" does not fit into memory: " + std::to_string(size) + " bytes");
}

}  // namespace

FileBytes read_plain_file(const std::string& path) {
  struct stat info {};
  const Descriptor file(open_plain(path, info));
  const auto size = static_cast<size_t>(info.st_size);
  if (size == 0) return {};
  void* memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) does_not_fit(path, size);
  std::shared_ptr<const void> owner(memory, [size](const void* p) { ::munmap(const_cast<void*>(p), size); });
  ::madvise(memory, size, MADV_HUGEPAGE);  // fewer page faults; no matter when it is refused
  read_all(file.get(), 0, {static_cast<uint8_t*>(memory), size}, path);
  ::mprotect(memory, size, PROT_READ);
  return {{static_cast<const uint8_t*>(memory), size}, std::move(owner)};
}

MappedFile::MappedFile(const std::string& path) : path_(path) {
  struct stat info {};
  fd_ = open_plain(path, info);
  size_ = static_cast<size_t>(info.st_size);
  modified_ns_ = modified(info);
  if (size_ == 0) return;
  memory_ = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, fd_, 0);
  if (memory_ != MAP_FAILED) return;
  ::close(fd_);
  does_not_fit(path, size_);
}

MappedFile::~MappedFile() {
  if (size_ > 0) ::munmap(memory_, size_);
  ::close(fd_);
}

void MappedFile::read(size_t offset, std::span<uint8_t> to) const { read_all(fd_, offset, to, path_); }

bool MappedFile::unchanged() const {
  struct stat info {};
  return ::fstat(fd_, &info) == 0 && static_cast<size_t>(info.st_size) == size_ && modified(info) == modified_ns_;
}

}  // namespace deepjit
