// Which steps of a program would have to run on its device and have no kernel there.
#pragma once

#include <map>
#include <string>

#include "compiler/shapes.h"

namespace deepjit {

// Throws NO_DEVICE_KERNEL naming every such step and why. `refused` has what the tuner says, by step. Nothing is known
// when no trial shape fits the program: then a run at shapes that do fit says it.
void check_device_steps(const Program& program, const std::string& device, const InputShapes& shapes,
                        const std::map<int32_t, std::string>& refused);

}  // namespace deepjit
