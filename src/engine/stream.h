// Little-endian writing and range-checked reading of the engine's sections.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"

namespace deepjit {

static_assert(std::endian::native == std::endian::little, "the engine file is written by memcpy");

class ByteWriter {
 public:
  template <typename T>
  void number(T value) {
    static_assert(std::is_arithmetic_v<T>);
    const auto* p = reinterpret_cast<const uint8_t*>(&value);
    bytes_.insert(bytes_.end(), p, p + sizeof(T));
  }
  void text(const std::string& value) {
    number(static_cast<uint32_t>(value.size()));
    bytes_.insert(bytes_.end(), value.begin(), value.end());
  }
  template <typename C, typename F>
  void list(const C& values, F&& write_one) {
    number(static_cast<uint32_t>(values.size()));
    for (const auto& v : values) write_one(v);
  }
  void raw(const void* data, size_t size) {
    const auto* p = static_cast<const uint8_t*>(data);
    bytes_.insert(bytes_.end(), p, p + size);
  }
  void pad_to(size_t multiple) { bytes_.resize((bytes_.size() + multiple - 1) / multiple * multiple); }
  std::vector<uint8_t>& bytes() { return bytes_; }

 private:
  std::vector<uint8_t> bytes_;
};

// Every read checks that the bytes are there; any fault is ENGINE_RANGE.
class ByteReader {
 public:
  explicit ByteReader(std::span<const uint8_t> bytes) : bytes_(bytes) {}

  template <typename T>
  T number() {
    static_assert(std::is_arithmetic_v<T>);
    T value;
    std::memcpy(&value, take(sizeof(T)), sizeof(T));
    return value;
  }
  std::string text() {
    const auto size = number<uint32_t>();
    const auto* p = reinterpret_cast<const char*>(take(size));
    return {p, size};
  }
  // A count of items that take at least `item_bytes` bytes each: cannot exceed what is left.
  size_t count(size_t item_bytes = 1) {
    const auto n = number<uint32_t>();
    need(n, item_bytes);
    return n;
  }
  void need(uint64_t items, size_t item_bytes) const {
    if (items > (bytes_.size() - position_) / item_bytes) fail("a count is larger than the section");
  }
  const uint8_t* take(size_t size) {
    if (size > bytes_.size() - position_) fail("a section ends too early");
    const uint8_t* p = bytes_.data() + position_;
    position_ += size;
    return p;
  }
  bool at_end() const { return position_ == bytes_.size(); }
  [[noreturn]] static void fail(const std::string& what) {
    throw Error(Code::ENGINE_RANGE, "the engine is damaged: " + what, "build the engine again");
  }

 private:
  std::span<const uint8_t> bytes_;
  size_t position_ = 0;
};

}  // namespace deepjit
