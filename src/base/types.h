// Element types, concrete dimensions and checked sizes.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace deepjit {

// Element types. The numbers below 100 are ONNX's TensorProto.DataType, so import and the engine file share them.
// The types of less than eight bits are stored one element a byte in memory.
//
// The elements of STRING, SEQUENCE and OPTIONAL are C++ objects: std::string for STRING, Tensor for the other two.
// A sequence of n tensors has dims [n]; an optional has dims [0] when it is empty, [1] otherwise.
enum class DType : uint8_t {
  UNDEFINED = 0,
  FLOAT32 = 1,
  UINT8 = 2,
  INT8 = 3,
  UINT16 = 4,
  INT16 = 5,
  INT32 = 6,
  INT64 = 7,
  STRING = 8,
  BOOL = 9,
  FLOAT16 = 10,
  FLOAT64 = 11,
  UINT32 = 12,
  UINT64 = 13,
  BFLOAT16 = 16,
  FLOAT8E4M3FN = 17,
  FLOAT8E4M3FNUZ = 18,
  FLOAT8E5M2 = 19,
  FLOAT8E5M2FNUZ = 20,
  UINT4 = 21,
  INT4 = 22,
  FLOAT4E2M1 = 23,
  FLOAT8E8M0 = 24,
  UINT2 = 25,
  INT2 = 26,
  SEQUENCE = 100,
  OPTIONAL = 101,
};

std::string_view dtype_name(DType dtype);  // "float32", "int4", ...
std::optional<DType> dtype_from_name(std::string_view name);
size_t dtype_size(DType dtype);  // bytes per element in memory; 0 where elements are objects
bool is_float(DType dtype);      // all floating-point types
bool is_integer(DType dtype);    // signed and unsigned, not BOOL
bool is_signed_integer(DType dtype);
bool is_object(DType dtype);  // STRING, SEQUENCE, OPTIONAL: never part of an arena

// IEEE half, stored as bits. Arithmetic is done in float.
struct float16 {
  uint16_t bits = 0;
  float16() = default;
  explicit float16(float value);
  explicit operator float() const;
};

// bfloat16, stored as bits; conversion from float rounds to nearest even.
struct bfloat16 {
  uint16_t bits = 0;
  bfloat16() = default;
  explicit bfloat16(float value) {
    uint32_t x = std::bit_cast<uint32_t>(value);
    if ((x & 0x7fffffffu) > 0x7f800000u) {
      bits = static_cast<uint16_t>((x >> 16) | 0x40u);
    } else {
      bits = static_cast<uint16_t>((x + 0x7fffu + ((x >> 16) & 1u)) >> 16);
    }
  }
  explicit operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
};

// int4 and uint4, one element a byte.
struct int4 {
  int8_t value = 0;
};
struct uint4 {
  uint8_t value = 0;
};

// The product of two sizes, or Error(SHAPE_OVERFLOW).
int64_t checked_mul(int64_t a, int64_t b);
int64_t checked_add(int64_t a, int64_t b);

constexpr int kMaxRank = 16;

// A concrete shape of up to kMaxRank dimensions, stored inline: making one never allocates.
class Dims {
 public:
  Dims() = default;
  Dims(std::initializer_list<int64_t> dims) : Dims(std::span<const int64_t>(dims.begin(), dims.size())) {}
  explicit Dims(std::span<const int64_t> dims) {
    for (int64_t d : dims) push_back(d);
  }
  static Dims filled(int rank, int64_t value) {
    Dims d;
    for (int i = 0; i < rank; ++i) d.push_back(value);
    return d;
  }

  int rank() const { return rank_; }
  size_t size() const { return static_cast<size_t>(rank_); }
  bool empty() const { return rank_ == 0; }
  int64_t& operator[](int i) { return values_[static_cast<size_t>(i)]; }
  int64_t operator[](int i) const { return values_[static_cast<size_t>(i)]; }
  int64_t& back() { return values_[static_cast<size_t>(rank_ - 1)]; }
  int64_t back() const { return values_[static_cast<size_t>(rank_ - 1)]; }
  void push_back(int64_t value) {
    if (rank_ == kMaxRank) throw Error(Code::LIMIT, "rank above 16 is not supported");
    values_[static_cast<size_t>(rank_++)] = value;
  }
  void insert(int position, int64_t value);
  void erase(int position);
  const int64_t* begin() const { return values_.data(); }
  const int64_t* end() const { return values_.data() + rank_; }
  int64_t* begin() { return values_.data(); }
  int64_t* end() { return values_.data() + rank_; }
  operator std::span<const int64_t>() const { return {values_.data(), size()}; }
  bool operator==(const Dims& other) const {
    return rank_ == other.rank_ && std::memcmp(values_.data(), other.values_.data(), size() * sizeof(int64_t)) == 0;
  }

  // Number of elements; 1 for rank 0. Throws SHAPE_OVERFLOW when the product does not fit.
  int64_t count() const;
  // Row-major strides in elements.
  Dims strides() const;
  std::string to_string() const;  // "[1, 3, 224]"

 private:
  std::array<int64_t, kMaxRank> values_{};
  int rank_ = 0;
};

// `axis` in [-rank, rank) made non-negative, or Error(ATTRIBUTE) naming `what`.
int normalize_axis(int64_t axis, int rank, std::string_view what = "axis");

// Multidirectional (NumPy) broadcast of two shapes, or Error(SHAPE_MISMATCH).
Dims broadcast_dims(const Dims& a, const Dims& b);

}  // namespace deepjit
