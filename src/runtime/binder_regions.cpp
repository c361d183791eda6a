// Fused regions in bind(): one kernel where there is one for it, the steps that it stands for otherwise.
#include <algorithm>

#include "runtime/binder.h"

namespace deepjit {

// Without a generated kernel, with shapes that depend on data, or when all of it is known now.
bool Binder::runs_step_by_step(const Step& step, bool inputs_fixed) const {
  if (!inputs_fixed) return true;
  if (step.tactic.provider == reference_launcher().name() && !request_.visitor) return true;
  return std::all_of(step.inputs.begin(), step.inputs.end(), [&](int32_t buffer) {
    return buffer < 0 || states_[static_cast<size_t>(buffer)].known.defined();
  });
}

void Binder::walk_region(const Step& step, bool inputs_fixed) {
  const int32_t block = step.blocks[0];
  if (runs_step_by_step(step, inputs_fixed)) return walk(block);
  // The steps inside say what the outputs look like.
  const bool outer = exploring_;
  exploring_ = true;
  walk(block);
  exploring_ = outer;
  bool fixed = true;
  bool all_empty = true;
  for (int32_t buffer : step.outputs) {
    const auto dims = states_[static_cast<size_t>(buffer)].type.shape.as_const();
    fixed = fixed && dims.has_value();
    all_empty = all_empty && dims && dims->count() == 0;
  }
  if (!fixed) {
    if (!exploring_) walk(block);
    return;
  }
  for (int32_t buffer : step.outputs) {
    BufferState& state = states_[static_cast<size_t>(buffer)];
    if (state.known.defined()) set_known(buffer, state.known);
  }
  visit(step);
  if (exploring_ || all_empty) return;
  append(BoundStep::Kind::KERNEL, step);
}

}  // namespace deepjit
