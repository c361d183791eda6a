// What this machine can do at most, measured: bytes copied and float32 operations a second.
#pragma once

#include "device/device.h"
#include "profile/records.h"

namespace deepjit::profile {

// Of `threads` threads of the CPU: copies that stay in each cache and that do not, and fused multiply-adds. Takes about
// a tenth of a second, once a process and number of threads.
const Limits& cpu_limits(int threads);

// Of a device: copies inside it. Its arithmetic is not measured.
Limits device_limits(device::Device& device);

// Fills what a record reached, and how much of the limit that holds for it.
void rate(StepRecord& record, const Limits& limits, bool arithmetic_counts);

}  // namespace deepjit::profile
