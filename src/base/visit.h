// Calls a generic lambda with the C++ type of a DType.
#pragma once

#include <string>

#include "base/types.h"

namespace deepjit {

// How an element type computes: the type that arithmetic is done in.
// float16 and bfloat16 compute in float; int4 and uint4 in int8_t and uint8_t; the rest in themselves.
template <typename T>
struct Compute {
  using type = T;
};
template <>
struct Compute<float16> {
  using type = float;
};
template <>
struct Compute<bfloat16> {
  using type = float;
};
template <typename T>
using compute_t = typename Compute<T>::type;

template <typename T>
compute_t<T> load_as_compute(T value) {
  return static_cast<compute_t<T>>(value);
}

// visit_float(dtype, "Conv", [&]<typename T>() {...}); T is float, double, float16 or bfloat16.
template <typename F>
void visit_float(DType dtype, std::string_view what, F&& f) {
  switch (dtype) {
    case DType::FLOAT32:
      return f.template operator()<float>();
    case DType::FLOAT64:
      return f.template operator()<double>();
    case DType::FLOAT16:
      return f.template operator()<float16>();
    case DType::BFLOAT16:
      return f.template operator()<bfloat16>();
    default:
      throw Error(Code::TYPE, std::string(what) + ": element type " + std::string(dtype_name(dtype)) +
                                  " is not supported, expected a floating-point type");
  }
}

template <typename F>
void visit_integer(DType dtype, std::string_view what, F&& f) {
  switch (dtype) {
    case DType::INT8:
    case DType::INT4:
    case DType::INT2:
      return f.template operator()<int8_t>();
    case DType::UINT8:
    case DType::UINT4:
    case DType::UINT2:
      return f.template operator()<uint8_t>();
    case DType::INT16:
      return f.template operator()<int16_t>();
    case DType::UINT16:
      return f.template operator()<uint16_t>();
    case DType::INT32:
      return f.template operator()<int32_t>();
    case DType::UINT32:
      return f.template operator()<uint32_t>();
    case DType::INT64:
      return f.template operator()<int64_t>();
    case DType::UINT64:
      return f.template operator()<uint64_t>();
    default:
      throw Error(Code::TYPE, std::string(what) + ": element type " + std::string(dtype_name(dtype)) +
                                  " is not supported, expected an integer type");
  }
}

// All numeric types: floats and integers, not bool, not string, not float8.
template <typename F>
void visit_numeric(DType dtype, std::string_view what, F&& f) {
  if (is_integer(dtype)) return visit_integer(dtype, what, f);
  visit_float(dtype, what, f);
}

// Calls f with an unsigned type of the element's size: for ops that only move data (not STRING).
template <typename F>
void visit_storage(DType dtype, F&& f) {
  switch (dtype_size(dtype)) {
    case 1:
      return f.template operator()<uint8_t>();
    case 2:
      return f.template operator()<uint16_t>();
    case 4:
      return f.template operator()<uint32_t>();
    case 8:
      return f.template operator()<uint64_t>();
    default:
      throw Error(Code::TYPE, "element type " + std::string(dtype_name(dtype)) + " has no fixed size");
  }
}

}  // namespace deepjit
