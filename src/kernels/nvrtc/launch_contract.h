// The run side of generated contractions and windows (contract_data.h).
#pragma once

#include <memory>

#include "kernels/kernel.h"

namespace deepjit::device {
class Module;
}  // namespace deepjit::device

namespace deepjit::nvrtc_gpu {

// A kernel at these shapes, or nullptr where it was built for others. Throws Error(ENGINE_RANGE) for damaged data.
std::unique_ptr<Kernel> make_contract_kernel(const StepShape& shape, std::shared_ptr<device::Module> module,
                                             const Tensor& launch);

}  // namespace deepjit::nvrtc_gpu
