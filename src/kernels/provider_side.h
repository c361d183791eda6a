// Where the kernels of a provider run: on the CPU, or on the device that an engine is built for.
#pragma once

#include <string>

namespace deepjit {

// In an engine for a device, a step whose tactic is of such a provider runs on the host.
bool runs_on_cpu(const std::string& provider);

}  // namespace deepjit
