#include "base/types.h"

#include <utility>

namespace deepjit {

namespace {

constexpr std::pair<DType, std::string_view> kNames[] = {
    {DType::UNDEFINED, "undefined"},
    {DType::FLOAT32, "float32"},
    {DType::UINT8, "uint8"},
    {DType::INT8, "int8"},
    {DType::UINT16, "uint16"},
    {DType::INT16, "int16"},
    {DType::INT32, "int32"},
    {DType::INT64, "int64"},
    {DType::STRING, "string"},
    {DType::BOOL, "bool"},
    {DType::FLOAT16, "float16"},
    {DType::FLOAT64, "float64"},
    {DType::UINT32, "uint32"},
    {DType::UINT64, "uint64"},
    {DType::BFLOAT16, "bfloat16"},
    {DType::FLOAT8E4M3FN, "float8e4m3fn"},
    {DType::FLOAT8E4M3FNUZ, "float8e4m3fnuz"},
    {DType::FLOAT8E5M2, "float8e5m2"},
    {DType::FLOAT8E5M2FNUZ, "float8e5m2fnuz"},
    {DType::UINT4, "uint4"},
    {DType::INT4, "int4"},
    {DType::FLOAT4E2M1, "float4e2m1"},
    {DType::FLOAT8E8M0, "float8e8m0"},
    {DType::UINT2, "uint2"},
    {DType::INT2, "int2"},
    {DType::SEQUENCE, "sequence"},
    {DType::OPTIONAL, "optional"},
};

}  // namespace

std::string_view dtype_name(DType dtype) {
  for (const auto& [value, name] : kNames) {
    if (value == dtype) return name;
  }
  return "unknown";
}

std::optional<DType> dtype_from_name(std::string_view name) {
  for (const auto& [value, text] : kNames) {
    if (text == name) return value;
  }
  return std::nullopt;
}

size_t dtype_size(DType dtype) {
  switch (dtype) {
    case DType::FLOAT64:
    case DType::INT64:
    case DType::UINT64:
      return 8;
    case DType::FLOAT32:
    case DType::INT32:
    case DType::UINT32:
      return 4;
    case DType::FLOAT16:
    case DType::BFLOAT16:
    case DType::INT16:
    case DType::UINT16:
      return 2;
    case DType::UNDEFINED:
    case DType::STRING:
    case DType::SEQUENCE:
    case DType::OPTIONAL:
      return 0;
    default:
      return 1;
  }
}

bool is_float(DType dtype) {
  switch (dtype) {
    case DType::FLOAT16:
    case DType::BFLOAT16:
    case DType::FLOAT32:
    case DType::FLOAT64:
    case DType::FLOAT8E4M3FN:
    case DType::FLOAT8E4M3FNUZ:
    case DType::FLOAT8E5M2:
    case DType::FLOAT8E5M2FNUZ:
    case DType::FLOAT4E2M1:
    case DType::FLOAT8E8M0:
      return true;
    default:
      return false;
  }
}

bool is_signed_integer(DType dtype) {
  return dtype == DType::INT8 || dtype == DType::INT16 || dtype == DType::INT32 || dtype == DType::INT64 ||
         dtype == DType::INT4 || dtype == DType::INT2;
}

bool is_integer(DType dtype) {
  return is_signed_integer(dtype) || dtype == DType::UINT8 || dtype == DType::UINT16 || dtype == DType::UINT32 ||
         dtype == DType::UINT64 || dtype == DType::UINT4 || dtype == DType::UINT2;
}

bool is_object(DType dtype) { return dtype == DType::STRING || dtype == DType::SEQUENCE || dtype == DType::OPTIONAL; }

float16::float16(float value) {
  const uint32_t x = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (x >> 16) & 0x8000u;
  const uint32_t magnitude = x & 0x7fffffffu;
  if (magnitude > 0x7f800000u) {
    bits = static_cast<uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
  } else if (magnitude >= 0x477ff000u) {  // rounds to 65536 or more
    bits = static_cast<uint16_t>(sign | 0x7c00u);
  } else if (magnitude < 0x38800000u) {  // below 2^-14: subnormal; adding 0.5 makes the FPU round to nearest even
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    bits = static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000u));
  } else {
    const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u) - 0x38000000u;
    bits = static_cast<uint16_t>(sign | (rounded >> 13));
  }
}

float16::operator float() const {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1fu;
  const uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent == 0) {
    const float value = static_cast<float>(mantissa) * 0x1p-24f;
    return sign ? -value : value;
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

int64_t checked_mul(int64_t a, int64_t b) {
  int64_t out = 0;
  if (__builtin_mul_overflow(a, b, &out)) throw Error(Code::SHAPE_OVERFLOW, "a product of sizes overflows");
  return out;
}

int64_t checked_add(int64_t a, int64_t b) {
  int64_t out = 0;
  if (__builtin_add_overflow(a, b, &out)) throw Error(Code::SHAPE_OVERFLOW, "a sum of sizes overflows");
  return out;
}

void Dims::insert(int position, int64_t value) {
  push_back(0);
  for (int i = rank_ - 1; i > position; --i) (*this)[i] = (*this)[i - 1];
  (*this)[position] = value;
}

void Dims::erase(int position) {
  for (int i = position; i + 1 < rank_; ++i) (*this)[i] = (*this)[i + 1];
  --rank_;
}

int64_t Dims::count() const {
  int64_t n = 1;
  bool zero = false;
  for (int64_t d : *this) {
    if (d == 0) {
      zero = true;
    } else {
      n = checked_mul(n, d);
    }
  }
  return zero ? 0 : n;
}

Dims Dims::strides() const {
  Dims out = filled(rank_, 1);
  // Where a dim is 0 the others may be of any size: their product wraps, and no one uses it.
  for (int i = rank_ - 2; i >= 0; --i) {
    out[i] = static_cast<int64_t>(static_cast<uint64_t>(out[i + 1]) * static_cast<uint64_t>((*this)[i + 1]));
  }
  return out;
}

std::string Dims::to_string() const {
  std::string text = "[";
  for (int i = 0; i < rank_; ++i) text += (i ? "," : "") + std::to_string((*this)[i]);
  return text + "]";
}

int normalize_axis(int64_t axis, int rank, std::string_view what) {
  if (axis < -rank || axis >= rank) {
    throw Error(Code::ATTRIBUTE,
                std::string(what) + " " + std::to_string(axis) + " is out of range for rank " + std::to_string(rank));
  }
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

Dims broadcast_dims(const Dims& a, const Dims& b) {
  const int rank = std::max(a.rank(), b.rank());
  Dims out = Dims::filled(rank, 1);
  for (int i = 0; i < rank; ++i) {
    const int ia = i - (rank - a.rank());
    const int ib = i - (rank - b.rank());
    const int64_t da = ia >= 0 ? a[ia] : 1;
    const int64_t db = ib >= 0 ? b[ib] : 1;
    if (da != db && da != 1 && db != 1) {
      throw Error(Code::SHAPE_MISMATCH, "shapes " + a.to_string() + " and " + b.to_string() + " do not broadcast");
    }
    out[i] = da == 1 ? db : da;
  }
  return out;
}

}  // namespace deepjit
