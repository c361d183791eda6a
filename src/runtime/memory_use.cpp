#include "runtime/memory_use.h"

#include <algorithm>

#include "base/limits.h"
#include "ops/common.h"
#include "ops/sequence/sequence.h"
#include "program/ranges.h"
#include "runtime/device_layout.h"

namespace deepjit {

namespace {

const TensorType& type_of(const Program& program, const ProgramInput& input) {
  return program.buffers[static_cast<size_t>(input.buffer)].type;
}

void check_names(const Program& program, const std::map<std::string, Dims>& given) {
  for (const auto& [name, dims] : given) {
    const auto is_it = [&, n = name](const ProgramInput& input) { return input.name == n; };
    if (std::none_of(program.inputs.begin(), program.inputs.end(), is_it)) {
      throw Error(Code::INPUT_NAME, "there is no input \"" + name + "\"");
    }
  }
}

Dims dims_of(const TensorType& type, const std::string& name, const std::map<std::string, int64_t>& symbols) {
  std::vector<int64_t> dims;
  bool open = !type.shape.ranked();
  for (int i = 0; !open && i < type.shape.rank(); ++i) {
    const auto constant = type.shape[i].as_const();
    const auto known = symbols.find(type.shape[i].to_string());
    open = !constant && known == symbols.end();
    if (!open) dims.push_back(constant ? *constant : known->second);
  }
  if (open) {
    throw Error(Code::ARGUMENT, "how large input \"" + name + "\" is going to be is not known: " + type.to_string(),
                "give its shape");
  }
  return Dims(std::span<const int64_t>(dims));
}

// nullptr on the CPU, and where the machine has no such device.
std::shared_ptr<device::Device> device_of(const Engine& engine) {
  if (engine.device_name() == "cpu") return nullptr;
  try {
    return device::open(engine.device_name());
  } catch (const Error&) {
    return nullptr;
  }
}

std::unique_ptr<Binding> bound_at(const Engine& engine, const ProgramInfo& info, std::span<const TensorView> inputs,
                                  int threads, device::Device* device) {
  const Program& program = *info.program;
  const bool on_device = engine.device_name() != "cpu";
  BindRequest request;
  request.threads = threads > 0 ? threads : std::max(1, program.threads);
  request.device = device;
  request.make_kernels = !on_device || device != nullptr;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const TensorView& otherwise = program.inputs[i].default_value.view();
    TensorView view = inputs[i].dtype == DType::UNDEFINED ? otherwise : inputs[i];
    if (view.data == nullptr && view.desc() == otherwise.desc()) view = otherwise;
    request.inputs.emplace_back(program.inputs[i].buffer, binding_key(view));
    const bool small = view.dims.rank() <= 1 && view.count() <= limits::value_elements && !is_object(view.dtype);
    if (!info.by_value[i] || view.data == nullptr || !small) continue;
    Tensor value(view.dtype, view.dims);
    copy_elements(view, value.view());
    request.known[program.inputs[i].buffer] = value;
  }
  return bind(info, request);
}

}  // namespace

std::vector<TensorView> shapes_of_inputs(const Program& program, const std::map<std::string, Dims>& given) {
  check_names(program, given);
  std::map<std::string, Dims> shapes = given;
  for (const ProgramInput& input : program.inputs) {
    if (input.default_value.defined()) shapes.emplace(input.name, input.default_value.dims());
    if (input.has_range) shapes.emplace(input.name, input.range.max);
  }
  std::map<std::string, int64_t> symbols;
  for (const ProgramInput& input : program.inputs) {
    const Shape& shape = type_of(program, input).shape;
    const auto known = shapes.find(input.name);
    if (known == shapes.end() || !shape.ranked() || shape.rank() != known->second.rank()) continue;
    for (int i = 0; i < shape.rank(); ++i) {
      if (shape[i].is_symbol()) symbols.emplace(shape[i].to_string(), known->second[i]);
    }
  }
  std::vector<TensorView> views;
  for (const ProgramInput& input : program.inputs) {
    const TensorType& type = type_of(program, input);
    if (is_collection(type.dtype)) {
      views.push_back({type.dtype, {0}, nullptr});  // their memory is data, not shape
      continue;
    }
    const auto known = shapes.find(input.name);
    views.push_back({type.dtype, known != shapes.end() ? known->second : dims_of(type, input.name, symbols), nullptr});
  }
  return views;
}

MemoryNeeds memory_needs(const Engine& engine, std::span<const TensorView> inputs, int threads) {
  const Program& program = engine.program();
  check_inputs(program, inputs);
  const auto device = device_of(engine);
  const ProgramInfo& info = engine.info_for(inputs);
  const auto binding = bound_at(engine, info, inputs, threads, device.get());
  MemoryNeeds needs;
  if (engine.device_name() == "cpu") {
    needs.constants = constant_bytes(program);
    needs.values = binding->arena_bytes;
    needs.scratch = binding->scratch_bytes;
    for (const BoundOutput& output : binding->outputs) {
      if (!output.dynamic) needs.outputs += bytes_of(binding->slots[static_cast<size_t>(output.slot)].desc);
    }
    return needs;
  }
  const IoLayout io = io_layout(info, *binding);
  needs.constants = DeviceSide::bytes_for(program);
  needs.scratch = device_size(binding->scratch_bytes);
  needs.values = arena_on_device(*binding) - needs.scratch + known_on_device(*info.program, *binding);
  needs.inputs = io.input_bytes;
  needs.outputs = io.output_bytes;
  return needs;
}

MemoryNeeds most_memory_needs(const Engine& engine, const std::map<std::string, Dims>& given, int threads) {
  MemoryNeeds most;
  for (const Program* one : programs_at(engine.program(), told_shapes(engine.program(), given))) {
    const MemoryNeeds needs = memory_needs(engine, shapes_of_inputs(*one, given), threads);
    if (needs.total() > most.total()) most = needs;
  }
  return most;
}

}  // namespace deepjit
