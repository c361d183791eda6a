// A chosen plan as cuDNN's own text, with compiled kernels in it, kept in the engine: for the library and the GPU that
// made it. Elsewhere the plan is made anew from the tactic's name.
#pragma once

#include <string>

#include "device/device.h"
#include "kernels/cudnn/library.h"

namespace deepjit::cudnn {

inline std::string saved_plan_format(const Library& library, const device::Info& info) {
  return "cudnn plan " + library.version + " " + info.model + " sm_" + std::to_string(info.architecture);
}

}  // namespace deepjit::cudnn
