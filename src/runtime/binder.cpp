#include "runtime/binder.h"

#include <algorithm>

#include "base/limits.h"
#include "device/device.h"
#include "kernels/provider_side.h"
#include "ops/sequence/sequence.h"
#include "runtime/control.h"

namespace deepjit {

namespace {

bool all_const(const std::vector<InferredOutput>& outputs) {
  return std::all_of(outputs.begin(), outputs.end(), [](const InferredOutput& out) {
    return out.type.dtype == DType::UNDEFINED || out.type.shape.as_const().has_value();
  });
}

}  // namespace

BoundStep::BoundStep() = default;
BoundStep::BoundStep(BoundStep&&) noexcept = default;
BoundStep& BoundStep::operator=(BoundStep&&) noexcept = default;
BoundStep::~BoundStep() = default;

Binder::Binder(const ProgramInfo& info, const BindRequest& request)
    : info_(info), program_(*info.program), request_(request), binding_(std::make_unique<Binding>()) {
  const size_t n = program_.buffers.size();
  states_.resize(n);
  alias_.resize(n);
  for (size_t i = 0; i < n; ++i) {
    alias_[i] = static_cast<int32_t>(i);
    const Buffer& buffer = program_.buffers[i];
    states_[i].type.dtype = buffer.type.dtype;
    if (buffer.constant.defined()) {
      states_[i] = {{buffer.constant.dtype(), Shape(buffer.constant.dims())}, buffer.constant, true};
    } else if (buffer.is_constant) {
      states_[i] = {buffer.type, {}, true};
    }
  }
  binding_->slots.resize(n);
  binding_->threads = request.threads;
  for (const auto& [buffer, desc] : request.inputs) {
    BufferState& state = states_[static_cast<size_t>(buffer)];
    state.type = {desc.dtype, Shape(desc.dims)};
    if (is_collection(desc.dtype)) {
      const TensorType& declared = program_.buffers[static_cast<size_t>(buffer)].type;
      state.type = {desc.dtype, Shape({fresh_dim()}), declared.element};
    }
    state.available = true;
  }
  for (const auto& [buffer, value] : request.known) set_known(buffer, value);
}

Dim Binder::fresh_dim() { return Dim::symbol(std::string("?").append(std::to_string(next_symbol_++))); }

std::unique_ptr<Binding> Binder::run() {
  walk(request_.block);
  make_kernels();
  settle_outputs();
  share_with_host();
  note_uses();
  work_in_place();
  lay_out_arena();
  part_host();
  size_up(*binding_);
  if (binding_->host != nullptr) size_up(*binding_->host);
  return std::move(binding_);
}

int32_t Binder::root(int32_t buffer) const {
  while (alias_[static_cast<size_t>(buffer)] != buffer) buffer = alias_[static_cast<size_t>(buffer)];
  return buffer;
}

void Binder::set_known(int32_t buffer, Tensor value) {
  BufferState& state = states_[static_cast<size_t>(buffer)];
  state.type = {value.dtype(), Shape(value.dims())};
  state.available = true;
  state.known = value;
  if (!exploring_) binding_->known[buffer] = std::move(value);
}

void Binder::walk(int32_t block) {
  for (int32_t index : program_.blocks[static_cast<size_t>(block)].steps) {
    const Step& step = program_.steps[static_cast<size_t>(index)];
    try {
      walk_step(step);
    } catch (const Error& e) {
      if (!step.blocks.empty()) throw;
      throw e.with_prefix("node \"" + step.name + "\" (" + step.op + "): ");
    }
  }
}

// True when the condition is known: the taken branch then stands in for the step.
bool Binder::walk_known_if(const Step& step) {
  const BufferState& condition = states_[static_cast<size_t>(step.inputs[0])];
  if (!condition.known.defined()) return false;
  if (condition.known.count() != 1) throw Error(Code::RUN_VALUE, "the condition of If must have one element");
  const bool taken = condition.known.to_i64()[0] != 0;
  if (request_.visitor && !exploring_) {
    exploring_ = true;
    const std::vector<BufferState> saved = states_;
    try {
      walk(step.blocks[taken ? 1 : 0]);
    } catch (const Error&) {  // a branch that these shapes do not fit has nothing to tell
    }
    states_ = saved;
    exploring_ = false;
  }
  const int32_t block = step.blocks[taken ? 0 : 1];
  walk(block);
  for (size_t i = 0; i < step.outputs.size(); ++i) {
    if (step.outputs[i] < 0) continue;
    const int32_t from = program_.blocks[static_cast<size_t>(block)].outputs[i];
    const auto to = static_cast<size_t>(step.outputs[i]);
    states_[to] = states_[static_cast<size_t>(from)];
    if (!exploring_) {
      alias_[to] = from;
      if (states_[to].known.defined()) binding_->known[step.outputs[i]] = states_[to].known;
    }
  }
  return true;
}

// Shape arithmetic: all inputs known, small, and the same every time.
bool Binder::evaluate_now(const Step& step, const std::vector<const BufferState*>& inputs) {
  int64_t elements = 0;
  for (const BufferState* input : inputs) {
    if (input == nullptr) continue;
    if (!input->known.defined() || is_object(input->known.dtype())) return false;
    elements += input->known.count();
  }
  if (elements > limits::known_elements || !find_op(step.op).deterministic) return false;
  for (const InferredOutput& out : infer_step(step, inputs, next_symbol_)) {
    const auto dims = out.type.shape.as_const();
    if (is_object(out.type.dtype) || (dims && dims->count() > limits::known_elements)) return false;
  }
  std::vector<Tensor> outputs = evaluate_known(step, inputs);
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (step.outputs[i] >= 0) set_known(step.outputs[i], std::move(outputs[i]));
  }
  return true;
}

BoundStep& Binder::append(BoundStep::Kind kind, const Step& step) {
  BoundStep& bound = binding_->steps.emplace_back();
  bound.kind = kind;
  bound.step = &step;
  bound.inputs = step.inputs;
  bound.outputs = step.outputs;
  return bound;
}

void Binder::visit(const Step& step) {
  if (request_.visitor) request_.visitor(step, step_shape(step));
}

// Lets the visitor see the steps of bodies, at the shapes of the first iteration.
void Binder::visit_blocks(const Step& step) {
  const bool outer = exploring_;
  exploring_ = true;
  for (int32_t index : step.blocks) {
    const std::vector<BufferState> saved = states_;
    const Block& block = program_.blocks[static_cast<size_t>(index)];
    try {
      for (size_t i = 0; step.op == "Loop" && i < block.inputs.size(); ++i) {
        BufferState& state = states_[static_cast<size_t>(block.inputs[i])];
        const DType dtype = i == 0 ? DType::INT64 : DType::BOOL;
        state = i < 2 ? BufferState{{dtype, Shape(Dims{})}, {}, true}
                      : BufferState{states_[static_cast<size_t>(step.inputs[i])].type, {}, true};
      }
      if (step.op != "Scan") walk(index);
    } catch (const Error&) {
    }
    states_ = saved;
  }
  exploring_ = outer;
}

void Binder::emit_control(const Step& step) {
  if (request_.visitor) visit_blocks(step);
  for (int32_t output : step.outputs) {
    if (output < 0) continue;
    const TensorType& type = program_.buffers[static_cast<size_t>(output)].type;
    BufferState& state = states_[static_cast<size_t>(output)];
    state = {{type.dtype, Shape(), type.element}, {}, true};
    if (!type.shape.ranked()) continue;
    std::vector<Dim> dims;
    for (int i = 0; i < type.shape.rank(); ++i) dims.push_back(fresh_dim());
    state.type.shape = Shape(std::move(dims));
  }
  if (exploring_) return;
  append(BoundStep::Kind::CONTROL, step).control = std::make_unique<ControlState>();
}

void Binder::walk_step(const Step& step) {
  if (std::all_of(step.outputs.begin(), step.outputs.end(), [](int32_t b) { return b < 0; })) return;  // read by nobody
  std::vector<const BufferState*> inputs;
  bool inputs_fixed = true;
  bool objects = false;
  for (int32_t buffer : step.inputs) {
    inputs.push_back(buffer < 0 ? nullptr : &states_[static_cast<size_t>(buffer)]);
    if (buffer < 0) continue;
    check_internal(inputs.back()->available, "bind: a buffer is read before it is written");
    inputs_fixed = inputs_fixed && inputs.back()->type.shape.as_const().has_value();
    objects = objects || is_object(inputs.back()->type.dtype);
  }
  if (step.op == "If" && walk_known_if(step)) return;
  if (step.op == kRegionOp) return walk_region(step, inputs_fixed);
  if (!step.blocks.empty()) return emit_control(step);
  if (evaluate_now(step, inputs)) return;

  const OpDef& op = find_op(step.op);
  std::vector<InferredOutput> outputs = infer_step(step, inputs, next_symbol_);
  if (outputs.size() == 1 && step.outputs[0] >= 0) {
    if (Tensor known = outputs[0].known(); known.defined()) return set_known(step.outputs[0], std::move(known));
  }
  bool all_empty = true;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (step.outputs[i] < 0) {
      outputs[i].type.dtype = DType::UNDEFINED;
      continue;
    }
    objects = objects || is_object(outputs[i].type.dtype);
    states_[static_cast<size_t>(step.outputs[i])] = {outputs[i].type, {}, true};
    const auto dims = outputs[i].type.shape.as_const();
    all_empty = all_empty && dims && dims->count() == 0;
  }
  const bool fixed = !objects && inputs_fixed && all_const(outputs);
  if (fixed) visit(step);
  if (exploring_ || (fixed && all_empty)) return;
  if (fixed && op.view) {
    alias_[static_cast<size_t>(step.outputs[0])] = step.inputs[0];
    return;
  }
  append(fixed ? BoundStep::Kind::KERNEL : BoundStep::Kind::DYNAMIC, step).objects = objects;
}

StepShape Binder::step_shape(const Step& step) const {
  StepShape shape;
  shape.program = &program_;
  shape.step = &step;
  shape.threads = request_.threads;
  shape.device = request_.device;
  auto desc = [&](int32_t buffer) {
    if (buffer < 0) return TensorDesc{};
    const TensorType& type = states_[static_cast<size_t>(buffer)].type;
    return TensorDesc{type.dtype, type.shape.as_const().value_or(Dims{})};
  };
  for (int32_t buffer : step.inputs) {
    shape.inputs.push_back(desc(buffer));
    const Tensor* constant = nullptr;
    if (buffer >= 0 && program_.buffers[static_cast<size_t>(buffer)].constant.defined()) {
      constant = &program_.buffers[static_cast<size_t>(buffer)].constant;
    } else if (auto it = binding_->known.find(buffer); it != binding_->known.end()) {
      constant = &it->second;
    }
    shape.constants.push_back(constant);
  }
  for (int32_t buffer : step.outputs) shape.outputs.push_back(desc(buffer));
  if (step.op != kRegionOp) return shape;
  for (int32_t index : program_.blocks[static_cast<size_t>(step.blocks[0])].steps) {
    shape.body.push_back(step_shape(program_.steps[static_cast<size_t>(index)]));
  }
  return shape;
}

std::unique_ptr<Kernel> make_kernel(const Program& program, Binding& binding, const StepShape& shape) {
  const Step& step = *shape.step;
  const Launcher* launcher = find_launcher(step.tactic.provider);
  if (launcher != nullptr && launcher != &reference_launcher()) {
    if (auto kernel = launcher->make(shape, step.tactic)) return kernel;
    for (const PackedOperand& packed : step.tactic.packed) {  // the reference wants plain constants
      if (packed.input < 0) continue;                         // code, not an operand
      const auto i = static_cast<size_t>(packed.input);
      const auto buffer = static_cast<size_t>(step.inputs[i]);
      if (program.buffers[buffer].constant.defined()) continue;
      binding.unpacked.push_back(launcher->unpack(packed, shape.inputs[i]));
      binding.slots[buffer].data = binding.unpacked.back().view().data;
    }
  }
  return reference_launcher().make(shape, Tactic{});
}

// nullptr: the step's tactic is none of the device, or does not run at these shapes.
std::unique_ptr<Kernel> Binder::make_device_kernel(const Step& step, const StepShape& shape) const {
  const Launcher* launcher = find_launcher(step.tactic.provider);
  if (launcher == nullptr || runs_on_cpu(launcher->name())) return nullptr;
  return launcher->make(shape, step.tactic);
}

namespace {

StepShape on_host(StepShape shape) {
  shape.device = nullptr;
  for (StepShape& inner : shape.body) inner = on_host(std::move(inner));
  return shape;
}

}  // namespace

// In an engine that was built to run on its device only.
void Binder::refuse_host(const BoundStep& bound) const {
  if (program_.metadata.count("build.device_only") == 0) return;
  const std::string why = bound.kind == BoundStep::Kind::CONTROL   ? "control flow runs on the host"
                          : bound.kind == BoundStep::Kind::DYNAMIC ? "what depends on data runs on the host"
                                                                   : "it has no kernel for it at these shapes";
  throw Error(Code::NO_DEVICE_KERNEL, request_.device->info().name + ": " + why, "build without --device-only");
}

// Decides too which steps run on the host, of a binding for a device.
void Binder::make_kernels() {
  for (BoundStep& bound : binding_->steps) {
    try {
      bound.on_host = request_.device != nullptr && bound.kind != BoundStep::Kind::KERNEL;
      if (bound.kind == BoundStep::Kind::KERNEL && request_.make_kernels) {
        StepShape shape = step_shape(*bound.step);
        if (request_.device != nullptr) {
          bound.kernel = make_device_kernel(*bound.step, shape);
          bound.on_host = bound.kernel == nullptr;
          if (bound.on_host) shape = on_host(std::move(shape));
        }
        if (bound.kernel == nullptr) bound.kernel = make_kernel(program_, *binding_, shape);
      }
      if (bound.on_host) refuse_host(bound);
    } catch (const Error& e) {
      throw e.with_prefix("node \"" + bound.step->name + "\" (" + bound.step->op + "): ");
    }
  }
}

// Once all steps are there: room for what each of them needs.
void Binder::size_up(Binding& binding) {
  size_t most_inputs = 0;
  size_t most_outputs = 0;
  for (const BoundStep& bound : binding.steps) {
    most_inputs = std::max(most_inputs, bound.inputs.size());
    most_outputs = std::max(most_outputs, bound.outputs.size());
    if (bound.kernel != nullptr) binding.scratch_bytes = std::max(binding.scratch_bytes, bound.kernel->scratch_bytes());
  }
  binding.input_addresses.resize(most_inputs);
  binding.output_addresses.resize(most_outputs);
}

TensorDesc binding_key(const TensorView& view) {
  return is_collection(view.dtype) ? TensorDesc{view.dtype, {}} : view.desc();
}

std::unique_ptr<Binding> bind(const ProgramInfo& info, const BindRequest& request) {
  return Binder(info, request).run();
}

void place(Binding& binding, void* arena) {
  for (const auto& [buffer, offset] : binding.in_arena) {
    binding.slots[static_cast<size_t>(buffer)].data = static_cast<std::byte*>(arena) + offset;
  }
}

}  // namespace deepjit
