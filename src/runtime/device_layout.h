// How values lie one behind the other in a block of device memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/tensor.h"

namespace deepjit {

// Of every address of a value, as of what a device allocates: kernels may rely on it.
constexpr size_t kDeviceAlignment = 256;

inline size_t device_size(size_t bytes) { return (bytes + kDeviceAlignment - 1) / kDeviceAlignment * kDeviceAlignment; }
inline size_t bytes_of(const TensorDesc& desc) { return static_cast<size_t>(desc.bytes()); }
inline std::byte* at(void* base, size_t offset) { return static_cast<std::byte*>(base) + offset; }
inline bool is_device_aligned(const void* address) {
  return reinterpret_cast<uintptr_t>(address) % kDeviceAlignment == 0;
}

}  // namespace deepjit
