// The clocks of an NVIDIA GPU as its management library tells them. Nothing is changed.
#pragma once

#include <optional>

#include "device/device.h"
#include "profile/records.h"

namespace deepjit::profile {

// None when it is no NVIDIA GPU, or the library (libnvidia-ml.so.1, beside the driver) is not there.
std::optional<Clocks> gpu_clocks(const device::Device& device);

}  // namespace deepjit::profile
