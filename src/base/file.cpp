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

void read_all(int fd, uint8_t* to, size_t size, const std::string& path) {
  constexpr size_t kPiece = size_t{1} << 30;  // one read call takes less than 2 GiB
  for (size_t done = 0; done < size;) {
    const ssize_t n = ::pread(fd, to + done, std::min(size - done, kPiece), static_cast<off_t>(done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(path, std::strerror(errno));
    if (n == 0) fail(path, "it got shorter while it was read");
    done += static_cast<size_t>(n);
  }
}

}  // namespace

FileBytes read_plain_file(const std::string& path) {
  // Non-blocking, so that a pipe cannot hold us.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) fail(path, std::strerror(errno));
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) fail(path, std::strerror(errno));
  if (!S_ISREG(info.st_mode)) fail(path, "it is not a plain file");
  const auto size = static_cast<size_t>(info.st_size);
  if (size == 0) return {};
  void* memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    throw Error(Code::HOST_OOM, "\"" + path + "\" does not fit into memory: " + std::to_string(size) + " bytes");
  }
  std::shared_ptr<const void> owner(memory, [size](const void* p) { ::munmap(const_cast<void*>(p), size); });
  ::madvise(memory, size, MADV_HUGEPAGE);  // fewer page faults; no matter when it is refused
  read_all(file.get(), static_cast<uint8_t*>(memory), size, path);
  ::mprotect(memory, size, PROT_READ);
  return {{static_cast<const uint8_t*>(memory), size}, std::move(owner)};
}

}  // namespace deepjit
