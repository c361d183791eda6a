// CUDA GPUs through the driver API. Each device is its primary context, which other CUDA code of the process shares.
#pragma once

#include "device/device.h"

namespace deepjit::device {

// LIBRARY_MISSING, DRIVER_MISMATCH or DEVICE_MISSING where there is none.
int cuda_device_count();
std::shared_ptr<Device> make_cuda_device(int number);

}  // namespace deepjit::device
