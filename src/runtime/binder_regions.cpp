// Fused regions in bind(): one kernel where there is one for it, the steps that it stands for otherwise. And combos:
// one launch where all of their regions are kernels, else their regions one by one.
#include <algorithm>

#include "program/combo.h"
#include "runtime/binder.h"

namespace deepjit {

bool Binder::all_known(const Step& step) const {
  return std::all_of(step.inputs.begin(), step.inputs.end(), [&](int32_t buffer) {
    return buffer < 0 || states_[static_cast<size_t>(buffer)].known.defined();
  });
}

bool Binder::all_fixed(const Step& step) const {
  return std::all_of(step.outputs.begin(), step.outputs.end(), [&](int32_t buffer) {
    return states_[static_cast<size_t>(buffer)].type.shape.as_const().has_value();
  });
}

// Without a generated kernel, with shapes that depend on data, or when all of it is known now.
bool Binder::runs_step_by_step(const Step& step, bool inputs_fixed) const {
  if (!inputs_fixed) return true;
  if (step.tactic.provider == reference_launcher().name() && !request_.visitor) return true;
  return all_known(step);
}

void Binder::walk_region(const Step& step, bool inputs_fixed) {
  if (is_combo(program_, step)) return walk_combo(step, inputs_fixed);
  const int32_t block = step.blocks[0];
  if (runs_step_by_step(step, inputs_fixed)) return walk(block);
  // The steps inside say what the outputs look like.
  const bool outer = exploring_;
  exploring_ = true;
  walk(block);
  exploring_ = outer;
  if (all_fixed(step)) return append_region(step);
  if (!exploring_) walk(block);
}

void Binder::walk_combo(const Step& step, bool inputs_fixed) {
  const int32_t block = step.blocks[0];
  if (runs_step_by_step(step, inputs_fixed)) return walk(block);
  const bool outer = exploring_;
  exploring_ = true;
  bool joint = true;
  const std::vector<int32_t>& inside = program_.blocks[static_cast<size_t>(block)].steps;
  for (int32_t index : inside) {
    const Step& inner = program_.steps[static_cast<size_t>(index)];
    const bool region = inner.op == kRegionOp;
    joint = joint && !(region && all_known(inner));
    walk_step(inner);
    joint = joint && all_fixed(inner);
    if (!region) joint = joint && !states_[static_cast<size_t>(inner.outputs[0])].known.defined();
  }
  exploring_ = outer;
  if (!joint) {
    if (!exploring_) walk(block);
    return;
  }
  append_region(step);
  if (exploring_) return;
  for (int32_t index : inside) {
    const Step& inner = program_.steps[static_cast<size_t>(index)];
    if (inner.op != kRegionOp) alias_[static_cast<size_t>(inner.outputs[0])] = inner.inputs[0];
  }
}

// Its steps were explored, and all shapes are fixed.
void Binder::append_region(const Step& step) {
  bool all_empty = true;
  for (int32_t buffer : step.outputs) {
    const BufferState& state = states_[static_cast<size_t>(buffer)];
    all_empty = all_empty && state.type.shape.as_const()->count() == 0;
    if (state.known.defined()) set_known(buffer, state.known);
  }
  visit(step);
  if (exploring_ || all_empty) return;
  append(BoundStep::Kind::KERNEL, step);
}

}  // namespace deepjit
