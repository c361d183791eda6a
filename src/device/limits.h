// What a device can do at most: copies inside it, measured, and peaks by its clocks, which nothing goes past.
#pragma once

#include "device/device.h"

namespace deepjit::device {

// Of copies of `bytes` inside the device, bytes read and bytes written, in GB/s: the best of some rounds of `in_a_row`.
// 0 where there is no time to tell.
double copy_gb_s(Device& device, size_t bytes, int in_a_row);

// By the largest clocks; 0 where that is not known.
struct Peaks {
  double memory_gb_s = 0;     // of its memory
  double l2_gb_s = 0;         // between the L2 and all processors
  double gflop_s = 0;         // of float32
  double tensor_gflop_s = 0;  // of 16-bit floats in tensor cores, which do tf32 at half of it
};
Peaks peaks_of(const Info& info);

}  // namespace deepjit::device
