#include "ops/common.h"
#include "runtime/binding.h"
#include "runtime/bound_ops.h"
#include "runtime/control.h"
#include "runtime/device_run.h"
#include "runtime/observer.h"

namespace deepjit {

namespace {

Slot& slot_of(Binding& binding, int32_t buffer) { return binding.slots[static_cast<size_t>(buffer)]; }

TensorDesc desc_of(Binding& binding, int32_t buffer) {
  return buffer < 0 ? TensorDesc{} : slot_of(binding, buffer).desc;
}

void* own(Binding& binding, int32_t buffer, const TensorDesc& desc) {
  Slot& slot = slot_of(binding, buffer);
  slot.desc = desc;
  slot.data = binding.owned[buffer].ensure(desc);
  return slot.data;
}

void launch(Binding& binding, BoundStep& bound, void* scratch) {
  for (size_t i = 0; i < bound.inputs.size(); ++i) {
    binding.input_addresses[i] = bound.inputs[i] < 0 ? nullptr : slot_of(binding, bound.inputs[i]).data;
  }
  for (const auto& [input, address] : bound.packed) binding.input_addresses[input] = address;
  for (size_t i = 0; i < bound.outputs.size(); ++i) {
    binding.output_addresses[i] = bound.outputs[i] < 0 ? nullptr : slot_of(binding, bound.outputs[i]).data;
  }
  device::Stream* stream = binding.device == nullptr ? nullptr : binding.device->stream;
  int* fault = binding.device == nullptr ? nullptr : binding.device->fault;
  bound.kernel->run({binding.input_addresses.data(), binding.output_addresses.data(), scratch, stream, fault});
}

// Makes a kernel for the shapes at hand when the shape rule can tell all output shapes without reading data
// that changes; returns false when only the reference can run the step.
bool prepare_dynamic(const Program& program, Binding& binding, BoundStep& bound,
                     const std::vector<TensorDesc>& inputs) {
  const Step& step = *bound.step;
  const OpDef& op = find_op(step.op);
  if (!op.shape_inputs.empty()) return false;
  if (bound.kernel != nullptr && bound.seen == inputs) return true;
  std::vector<BufferState> states(inputs.size());
  std::vector<const BufferState*> pointers(inputs.size(), nullptr);
  StepShape shape;
  shape.step = &step;
  shape.inputs = inputs;
  shape.threads = binding.threads;
  for (size_t i = 0; i < inputs.size(); ++i) {
    shape.constants.push_back(nullptr);
    if (step.inputs[i] < 0) continue;
    states[i] = {{inputs[i].dtype, Shape(inputs[i].dims)}, {}, true};
    const Tensor& constant = program.buffers[static_cast<size_t>(step.inputs[i])].constant;
    if (auto it = binding.known.find(step.inputs[i]); it != binding.known.end())
      states[i].known = it->second;
    else
      states[i].known = constant;
    if (states[i].known.defined())
      shape.constants[i] = constant.defined() ? &constant : &binding.known.at(step.inputs[i]);
    pointers[i] = &states[i];
  }
  int64_t next_symbol = 1;
  const std::vector<InferredOutput> outputs = infer_step(step, pointers, next_symbol);
  for (size_t i = 0; i < outputs.size(); ++i) {
    const auto dims = outputs[i].type.shape.as_const();
    if (step.outputs[i] >= 0 && !dims) return false;
    shape.outputs.push_back(step.outputs[i] < 0 ? TensorDesc{} : TensorDesc{outputs[i].type.dtype, *dims});
    if (step.outputs[i] >= 0) slot_of(binding, step.outputs[i]).desc = shape.outputs.back();
  }
  bound.kernel = make_kernel(program, binding, shape);
  bound.seen = inputs;
  return true;
}

void execute_dynamic(const Program& program, Binding& binding, BoundStep& bound) {
  const Step& step = *bound.step;
  std::vector<TensorDesc> inputs;
  for (int32_t buffer : bound.inputs) inputs.push_back(desc_of(binding, buffer));
  if (!bound.objects && prepare_dynamic(program, binding, bound, inputs)) {
    for (int32_t buffer : bound.outputs) {
      if (buffer >= 0) own(binding, buffer, slot_of(binding, buffer).desc);
    }
    bool empty = true;
    for (int32_t buffer : bound.outputs) empty = empty && (buffer < 0 || slot_of(binding, buffer).desc.count() == 0);
    if (!empty) launch(binding, bound, binding.dynamic_scratch.ensure(bound.kernel->scratch_bytes()));
    return;
  }
  std::vector<TensorView> views;
  for (int32_t buffer : bound.inputs) {
    if (buffer < 0) {
      views.emplace_back();
    } else {
      const Slot& slot = slot_of(binding, buffer);
      views.push_back({slot.desc.dtype, slot.desc.dims, slot.data});
    }
  }
  evaluate_dynamic(step, views, [&](int i, const TensorDesc& desc) {
    return own(binding, bound.outputs[static_cast<size_t>(i)], desc);
  });
}

void update_followers(Binding& binding, const BoundStep& bound) {
  for (const BoundStep::Follower& follower : bound.followers) {
    Slot& slot = slot_of(binding, follower.buffer);
    const Slot& output = slot_of(binding, follower.output);
    slot.data = output.data;
    if (!follower.fixed_shape) slot.desc = output.desc;
  }
}

void execute_step(const ProgramInfo& info, Binding& binding, BoundStep& bound, void* scratch, Observer* observer) {
  switch (bound.kind) {
    case BoundStep::Kind::KERNEL:
      return launch(binding, bound, scratch);
    case BoundStep::Kind::DYNAMIC:
      execute_dynamic(*info.program, binding, bound);
      return update_followers(binding, bound);
    case BoundStep::Kind::CONTROL:
      execute_control(info, binding, bound, observer);
      return update_followers(binding, bound);
    case BoundStep::Kind::UPLOAD: {
      const Slot& to = slot_of(binding, bound.outputs[0]);
      const Slot& from = slot_of(*binding.host, bound.inputs[0]);
      return binding.device->stream->copy_in(to.data, from.data, static_cast<size_t>(to.desc.bytes()));
    }
    case BoundStep::Kind::DOWNLOAD: {
      const Slot& to = slot_of(*binding.host, bound.outputs[0]);
      const Slot& from = slot_of(binding, bound.inputs[0]);
      return binding.device->stream->copy_out(to.data, from.data, static_cast<size_t>(to.desc.bytes()));
    }
    case BoundStep::Kind::COPY: {
      const Slot& from = slot_of(binding, bound.inputs[0]);
      const Slot& to = slot_of(binding, bound.outputs[0]);
      if (binding.device != nullptr) {
        return binding.device->stream->copy(to.data, from.data, static_cast<size_t>(to.desc.bytes()));
      }
      if (is_object(from.desc.dtype)) own(binding, bound.outputs[0], from.desc);
      return copy_elements({from.desc.dtype, from.desc.dims, from.data}, {to.desc.dtype, to.desc.dims, to.data});
    }
  }
}

}  // namespace

void follow_aliases(Binding& binding) {
  for (const auto& [buffer, root] : binding.aliases) {
    const Slot& from = slot_of(binding, root);
    Slot& to = slot_of(binding, buffer);
    to.data = from.data;
    if (is_object(from.desc.dtype)) to.desc = from.desc;  // a collection's length is known only now
  }
}

void execute_steps(const ProgramInfo& info, Binding& binding, size_t first, size_t end, void* scratch,
                   Observer* observer) {
  for (size_t i = first; i < end; ++i) {
    BoundStep& bound = binding.steps[i];
    try {
      if (observer != nullptr) observer->begin_step(binding, bound);
      execute_step(info, binding, bound, scratch, observer);
      if (observer != nullptr) observer->end_step(binding, bound);
    } catch (const Error& e) {
      if (bound.step == nullptr || !bound.step->blocks.empty()) throw;
      throw e.with_prefix("node \"" + bound.step->name + "\" (" + bound.step->op + "): ");
    }
  }
}

void execute(const ProgramInfo& info, Binding& binding, void* scratch, Observer* observer) {
  follow_aliases(binding);
  execute_steps(info, binding, 0, binding.steps.size(), scratch, observer);
}

}  // namespace deepjit
