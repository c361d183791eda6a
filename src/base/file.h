// Whole files: read into memory, or mapped.
//
// What comes from outside (a model) is read: when another program cuts or changes it later, nothing happens to us.
// Engines are mapped, so that processes share their weights. Touching a mapped page that another program has cut off
// ends the process; so what decides anything goes through read(), and unchanged() is asked before the pages are used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

namespace deepjit {

struct FileBytes {
  std::span<const uint8_t> bytes;
  std::shared_ptr<const void> owner;  // page-aligned memory
};

// The bytes of a plain file; symbolic links are followed. Throws FILE_NOT_FOUND for anything else (a folder, a pipe,
// a device: without waiting for one) and when the file gets shorter while it is read, HOST_OOM when it does not fit.
FileBytes read_plain_file(const std::string& path);

class MappedFile {
 public:
  // Opens as read_plain_file() does, with the same errors. An empty file maps to nothing.
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  size_t size() const { return size_; }
  std::span<const uint8_t> bytes() const { return {static_cast<const uint8_t*>(memory_), size_}; }
  // Copies bytes of the file as it is now, without touching the mapping. FILE_NOT_FOUND when it got shorter.
  void read(size_t offset, std::span<uint8_t> to) const;
  // Is the file as long, and its content as old, as when it was opened? Replacing it by rename changes nothing here.
  bool unchanged() const;

 private:
  std::string path_;
  int fd_ = -1;
  size_t size_ = 0;
  int64_t modified_ns_ = 0;
  void* memory_ = nullptr;
};

// Memory that others refer into: something kept alive, which may be a mapped file.
class Backing {
 public:
  Backing() = default;
  template <typename T>
  Backing(std::shared_ptr<T> memory) : memory_(std::move(memory)) {}  // NOLINT(google-explicit-constructor)
  Backing(std::shared_ptr<const MappedFile> file) : memory_(file), file_(file.get()) {}  // NOLINT
  Backing(std::nullptr_t) {}  // NOLINT(google-explicit-constructor)

  const std::shared_ptr<const void>& memory() const { return memory_; }
  bool intact() const { return file_ == nullptr || file_->unchanged(); }

 private:
  std::shared_ptr<const void> memory_;
  const MappedFile* file_ = nullptr;
};

}  // namespace deepjit
