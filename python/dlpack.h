// The structures of DLPack, as every library agrees on them: a tensor, and what hands it over.
#pragma once

#include <cstdint>

namespace deepjit::python::dlpack {

enum DeviceType : int32_t { CPU = 1, CUDA = 2, CUDA_HOST = 3, CUDA_MANAGED = 13 };
enum TypeCode : uint8_t { INT = 0, UINT = 1, FLOAT = 2, BFLOAT = 4, BOOL = 6 };

struct Device {
  int32_t type = 0;
  int32_t number = 0;
};

struct Type {
  uint8_t code = 0;
  uint8_t bits = 0;
  uint16_t lanes = 1;
};

struct Tensor {
  void* data = nullptr;
  Device device;
  int32_t rank = 0;
  Type type;
  int64_t* shape = nullptr;
  int64_t* strides = nullptr;  // in elements; nullptr: dense, row-major
  uint64_t byte_offset = 0;
};

// In a capsule named "dltensor".
struct Managed {
  Tensor tensor;
  void* owner = nullptr;
  void (*deleter)(Managed*) = nullptr;
};

// In a capsule named "dltensor_versioned".
struct ManagedVersioned {
  uint32_t major = 1;
  uint32_t minor = 0;
  void* owner = nullptr;
  void (*deleter)(ManagedVersioned*) = nullptr;
  uint64_t flags = 0;
  Tensor tensor;
};
constexpr uint64_t kReadOnly = 1;

}  // namespace deepjit::python::dlpack
