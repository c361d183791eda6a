// Whole files in memory.
//
// A file is read, not mapped: when another program cuts or changes it later, nothing happens to us, where a mapping
// would end the process.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace deepjit {

struct FileBytes {
  std::span<const uint8_t> bytes;
  std::shared_ptr<const void> owner;  // page-aligned memory
};

// The bytes of a plain file; symbolic links are followed. Throws FILE_NOT_FOUND for anything else (a folder, a pipe,
// a device: without waiting for one) and when the file gets shorter while it is read, HOST_OOM when it does not fit.
FileBytes read_plain_file(const std::string& path);

}  // namespace deepjit
