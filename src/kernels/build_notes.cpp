#include "kernels/build_notes.h"

#include "device/device.h"

namespace deepjit {

bool is_for_null_device(const StepShape& shape) {
  if (shape.program == nullptr) return false;
  const auto found = shape.program->metadata.find("build.device");
  return found != shape.program->metadata.end() && device::kind_of(found->second) == "null";
}

}  // namespace deepjit
