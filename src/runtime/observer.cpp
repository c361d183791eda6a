#include "runtime/observer.h"

#include "runtime/device_run.h"

namespace deepjit {

void StepTimer::begin_step(const Binding& binding, const BoundStep& bound) {
  if (bound.step == nullptr) return;
  if (const DeviceUse* use = binding.device; use != nullptr) return use->stream->record(*use->before);
  started_.push_back(std::chrono::steady_clock::now());
}

void StepTimer::end_step(const Binding& binding, const BoundStep& bound) {
  if (bound.step == nullptr) return;
  if (const DeviceUse* use = binding.device; use != nullptr) {
    use->stream->record(*use->after);
    use->stream->synchronize();
    return on_step(*bound.step, use->device->elapsed_us(*use->before, *use->after));
  }
  const auto took = std::chrono::steady_clock::now() - started_.back();
  started_.pop_back();
  on_step(*bound.step, std::chrono::duration<double, std::micro>(took).count());
}

}  // namespace deepjit
