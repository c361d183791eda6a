// The clocks of an NVIDIA GPU as its management library tells them. Nothing is changed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "device/device.h"

namespace deepjit::device {

struct Clocks {
  int sm_mhz = 0, memory_mhz = 0, celsius = 0;
  std::vector<std::string> throttled;  // why the clocks were held back
};

// None when it is no NVIDIA GPU, or the library (libnvidia-ml.so.1, beside the driver) is not there.
std::optional<Clocks> gpu_clocks(const Device& device);

// "1980 MHz, memory 3201 MHz, 45 C, held back by power limit".
std::string to_string(const Clocks& clocks);

}  // namespace deepjit::device
