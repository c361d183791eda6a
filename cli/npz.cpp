#include "cli/npz.h"

#include <fmt/format.h>

#include "cli/files.h"
#include "cli/npy.h"

namespace deepjit::cli {

namespace {

[[noreturn]] void bad(const std::string& path, const std::string& what, const std::string& hint = "") {
  throw Error(Code::ARGUMENT, path + ": " + what, hint);
}

// A zip file's bytes: numbers are little endian.
class Zip {
 public:
  Zip(const std::string& path, std::string bytes) : path_(path), bytes_(std::move(bytes)) {}

  size_t number(size_t at, size_t size) const {
    if (at > bytes_.size() || size > bytes_.size() - at) bad(path_, "is cut off");
    size_t value = 0;
    for (size_t i = size; i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes_[at + i]);
    return value;
  }
  std::string part(size_t at, size_t size) const {
    if (at > bytes_.size() || size > bytes_.size() - at) bad(path_, "is cut off");
    return bytes_.substr(at, size);
  }

  // Where the end-of-directory record lies: it is the last one, before a comment of any length.
  size_t directory_end() const {
    constexpr size_t kRecord = 22;
    if (bytes_.size() < kRecord) bad(path_, "is no .npz file");
    for (size_t at = bytes_.size() - kRecord;; --at) {
      if (number(at, 4) == 0x06054b50) return at;
      if (at == 0 || bytes_.size() - at > kRecord + 0xffff) bad(path_, "is no .npz file");
    }
  }

 private:
  const std::string& path_;
  std::string bytes_;
};

}  // namespace

std::map<std::string, Tensor> read_npz(const std::string& path) {
  const Zip zip(path, read_file(path));
  const size_t end = zip.directory_end();
  const size_t count = zip.number(end + 10, 2);
  size_t entry = zip.number(end + 16, 4);
  std::map<std::string, Tensor> tensors;
  for (size_t i = 0; i < count; ++i) {
    if (zip.number(entry, 4) != 0x02014b50) bad(path, "its directory is damaged");
    const size_t name_size = zip.number(entry + 28, 2);
    std::string name = zip.part(entry + 46, name_size);
    const size_t size = zip.number(entry + 20, 4);
    const size_t local = zip.number(entry + 42, 4);
    if (zip.number(entry + 10, 2) != 0) {
      bad(path, "\"" + name + "\" is compressed", "save with numpy.savez, not savez_compressed");
    }
    if (size == 0xffffffff || local == 0xffffffff) bad(path, "\"" + name + "\" has more than 4 GiB");
    if (zip.number(local, 4) != 0x04034b50) bad(path, "\"" + name + "\" is not where the directory says");
    const size_t data = local + 30 + zip.number(local + 26, 2) + zip.number(local + 28, 2);
    const size_t dot = name.rfind(".npy");
    if (dot == std::string::npos || dot + 4 != name.size()) bad(path, "\"" + name + "\" is no .npy file");
    name.resize(dot);
    tensors[name] = parse_npy(fmt::format("{}: {}", path, name), zip.part(data, size));
    entry += 46 + name_size + zip.number(entry + 30, 2) + zip.number(entry + 32, 2);
  }
  return tensors;
}

}  // namespace deepjit::cli
