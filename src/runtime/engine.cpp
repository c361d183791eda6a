#include "runtime/engine.h"

#include <unistd.h>

#include <algorithm>
#include <map>

#include "ops/op.h"
#include "ops/sequence/sequence.h"
#include "program/ranges.h"

namespace deepjit {

namespace {

// Buffers whose value, not only their shape, decides shapes or branches; walked backwards to the inputs.
std::vector<bool> wanted_values(const Program& program) {
  std::vector<bool> wanted(program.buffers.size(), false);
  auto want = [&](int32_t buffer) {
    if (buffer < 0 || wanted[static_cast<size_t>(buffer)]) return false;
    wanted[static_cast<size_t>(buffer)] = true;
    return true;
  };
  auto any_output = [&](const Step& step) {
    return std::any_of(step.outputs.begin(), step.outputs.end(),
                       [&](int32_t b) { return b >= 0 && wanted[static_cast<size_t>(b)]; });
  };
  bool changed = true;
  while (changed) {
    changed = false;
    for (auto it = program.steps.rbegin(); it != program.steps.rend(); ++it) {
      const Step& step = *it;
      if (step.op == "If") {
        changed |= want(step.inputs[0]);
        for (int32_t block : step.blocks) {
          const Block& body = program.blocks[static_cast<size_t>(block)];
          for (size_t i = 0; i < step.outputs.size(); ++i) {
            if (step.outputs[i] >= 0 && wanted[static_cast<size_t>(step.outputs[i])]) changed |= want(body.outputs[i]);
          }
        }
        continue;
      }
      if (step.op == kRegionOp) continue;  // the steps inside are steps of the program too
      if (!step.blocks.empty() || step.op == "Shape" || step.op == "Size") continue;
      for (int i : find_op(step.op).shape_inputs) {
        if (static_cast<size_t>(i) < step.inputs.size()) changed |= want(step.inputs[static_cast<size_t>(i)]);
      }
      if (any_output(step)) {
        for (int32_t buffer : step.inputs) changed |= want(buffer);
      }
    }
  }
  return wanted;
}

void collect_imports(const Program& program, int32_t index, std::vector<int32_t>& reads, std::vector<int32_t>& makes) {
  const Block& block = program.blocks[static_cast<size_t>(index)];
  makes.insert(makes.end(), block.inputs.begin(), block.inputs.end());
  reads.insert(reads.end(), block.outputs.begin(), block.outputs.end());
  for (int32_t s : block.steps) {
    const Step& step = program.steps[static_cast<size_t>(s)];
    reads.insert(reads.end(), step.inputs.begin(), step.inputs.end());
    makes.insert(makes.end(), step.outputs.begin(), step.outputs.end());
    if (step.op == kRegionOp) continue;  // its block reads and makes what it does, and its inputs come from outside
    for (int32_t nested : step.blocks) collect_imports(program, nested, reads, makes);
  }
}

}  // namespace

ProgramInfo::ProgramInfo(const Program& p) : program(&p) {
  for (size_t i = 0; i < p.blocks.size(); ++i) {
    std::vector<int32_t> reads;
    std::vector<int32_t> makes;
    collect_imports(p, static_cast<int32_t>(i), reads, makes);
    std::sort(reads.begin(), reads.end());
    reads.erase(std::unique(reads.begin(), reads.end()), reads.end());
    std::sort(makes.begin(), makes.end());
    std::vector<int32_t> outer;
    for (int32_t b : reads) {
      if (b >= 0 && !p.buffers[static_cast<size_t>(b)].is_constant &&
          !std::binary_search(makes.begin(), makes.end(), b)) {
        outer.push_back(b);
      }
    }
    imports.push_back(std::move(outer));
  }
  const std::vector<bool> wanted = wanted_values(p);
  for (const ProgramInput& input : p.inputs) by_value.push_back(wanted[static_cast<size_t>(input.buffer)]);
}

Engine::Engine(Program program, Backing backing, const std::string& device)
    : program_(std::move(program)), backing_(std::move(backing)) {
  for (const Program* one : programs_of(std::as_const(program_))) infos_.emplace_back(*one);
  const auto built_for = program_.metadata.find("build.device");
  device_name_ = built_for == program_.metadata.end() ? "cpu" : built_for->second;
  try {
    device::kind_of(device_name_);
  } catch (const Error& e) {
    throw Error(Code::ENGINE_RANGE, "the engine is damaged: " + e.message(), "build the engine again");
  }
  if (device.empty()) return;
  if (device::kind_of(device) != device::kind_of(device_name_)) {
    throw Error(Code::ENGINE_INCOMPATIBLE, "the engine was built for " + device_name_ + ", not for " + device,
                "build the model again with --device " + device);
  }
  device_name_ = device;
}

std::shared_ptr<const DeviceSide> Engine::device_side() const {
  if (device_name_ == "cpu") return nullptr;
  const std::lock_guard<std::mutex> lock(device_mutex_);
  if (device_side_ == nullptr) device_side_ = std::make_shared<DeviceSide>(program_, device::open(device_name_));
  return device_side_;
}

void Engine::check_backing() const {
  if (backing_.intact()) return;
  throw Error(Code::ENGINE_CHANGED, "the engine file was written over or cut while it was in use",
              "load it again; replace engine files by rename, as save() does");
}

namespace {

// The elements of a sequence or optional against the declared type.
void check_elements(const std::string& name, const TensorType& type, const TensorView& view) {
  if (view.dims.rank() != 1 || view.dims[0] < 0 || (type.dtype == DType::OPTIONAL && view.dims[0] > 1)) {
    throw Error(Code::INPUT_SHAPE, name + ": " + std::string(dtype_name(type.dtype)) + " of shape " +
                                       view.dims.to_string() +
                                       (type.dtype == DType::OPTIONAL ? ", expected [0] or [1]" : ", expected [n]"));
  }
  for (int64_t k = 0; k < view.count(); ++k) {
    const Tensor& element = view.as<Tensor>()[k];
    const std::string what = name + ", element " + std::to_string(k);
    const std::string got = "expected " + type.element->to_string() + ", got " +
                            std::string(dtype_name(element.dtype())) + element.dims().to_string();
    if (element.dtype() != type.element->dtype) throw Error(Code::INPUT_DTYPE, what + ": " + got);
    if (is_collection(element.dtype())) {
      check_elements(what, *type.element, element.view());
      continue;
    }
    const Shape& shape = type.element->shape;
    bool fits = !shape.ranked() || shape.rank() == element.dims().rank();
    for (int d = 0; d < element.dims().rank(); ++d) {
      fits = fits && element.dims()[d] >= 0 &&
             (!shape.ranked() || !shape[d].is_const() || shape[d].value() == element.dims()[d]);
    }
    if (!fits) throw Error(Code::INPUT_SHAPE, what + ": " + got);
  }
}

void check_input(const Program& program, size_t i, const TensorView& view, std::map<std::string, int64_t>& symbols) {
  const ProgramInput& input = program.inputs[i];
  const TensorType& type = program.buffers[static_cast<size_t>(input.buffer)].type;
  auto expected = [&] {
    return "expected " + type.to_string() + ", got " + std::string(dtype_name(view.dtype)) + view.dims.to_string();
  };
  if (view.dtype == DType::UNDEFINED) {
    if (input.default_value.defined()) return;
    throw Error(Code::INPUT_NAME, "input \"" + input.name + "\" is missing", "feed it as " + type.to_string());
  }
  if (view.dtype != type.dtype) throw Error(Code::INPUT_DTYPE, "input \"" + input.name + "\": " + expected());
  if (is_collection(type.dtype)) return check_elements("input \"" + input.name + "\"", type, view);
  for (int64_t d : view.dims) {
    if (d < 0) throw Error(Code::INPUT_SHAPE, "input \"" + input.name + "\" has a negative dimension");
  }
  if (!type.shape.ranked()) return;
  if (view.dims.rank() != type.shape.rank()) {
    throw Error(Code::INPUT_SHAPE, "input \"" + input.name + "\": " + expected());
  }
  for (int k = 0; k < view.dims.rank(); ++k) {
    const Dim& d = type.shape[k];
    if (d.is_const() && d.value() != view.dims[k]) {
      throw Error(Code::INPUT_SHAPE,
                  "input \"" + input.name + "\", dimension " + std::to_string(k) + ": " + expected());
    }
    if (d.is_symbol()) {
      const auto [it, fresh] = symbols.emplace(d.to_string(), view.dims[k]);
      if (!fresh && it->second != view.dims[k]) {
        throw Error(Code::INPUT_SHAPE, "input \"" + input.name + "\", dimension " + std::to_string(k) + ": " +
                                           it->first + " is " + std::to_string(it->second) +
                                           " in another input, here " + std::to_string(view.dims[k]));
      }
    }
  }
}

// The shapes of what is fed, or else of the default.
ToldShapes shapes_of(const Program& program, std::span<const TensorView> inputs) {
  ToldShapes shapes;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& otherwise = program.inputs[i].default_value;
    const bool fed = inputs[i].dtype != DType::UNDEFINED;
    shapes.push_back(fed ? &inputs[i].dims : otherwise.defined() ? &otherwise.dims() : nullptr);
  }
  return shapes;
}

[[noreturn]] void throw_out_of_range(const Program& program, const ToldShapes& shapes) {
  std::string all;      // of several inputs that are outside together
  std::string outside;  // or one that no range holds
  std::string name;
  for (size_t i = 0; i < shapes.size() && outside.empty(); ++i) {
    if (shapes[i] == nullptr) continue;
    ToldShapes alone(shapes.size(), nullptr);
    alone[i] = shapes[i];
    name = program.inputs[i].name;
    if (program_at(program, alone) == nullptr) outside = "input \"" + name + "\": shape " + shapes[i]->to_string();
    all += (all.empty() ? "inputs " : ", ") + name + " " + shapes[i]->to_string();
  }
  std::string ranges;
  for (const Program* one : programs_of(program)) ranges += (ranges.empty() ? "" : "; or ") + range_text(*one);
  throw Error(Code::OUT_OF_RANGE,
              outside.empty() ? all + ": no range of the engine has them together: " + ranges
                              : outside + " is outside the engine's range: " + ranges,
              "build again with a wider --range " + name + "=min:opt:max, or with one more");
}

}  // namespace

const ProgramInfo& Engine::info_for(std::span<const TensorView> inputs) const {
  if (infos_.size() == 1) return infos_.front();
  const Program* found = program_at(program_, shapes_of(program_, inputs));
  const auto it = std::find_if(infos_.begin(), infos_.end(), [&](const ProgramInfo& i) { return i.program == found; });
  return it == infos_.end() ? infos_.front() : *it;
}

void check_inputs(const Program& program, std::span<const TensorView> inputs) {
  check_internal(inputs.size() == program.inputs.size(), "run: wrong number of inputs");
  std::map<std::string, int64_t> symbols;
  for (size_t i = 0; i < inputs.size(); ++i) check_input(program, i, inputs[i], symbols);
  const ToldShapes shapes = shapes_of(program, inputs);
  if (program_at(program, shapes) == nullptr) throw_out_of_range(program, shapes);
}

}  // namespace deepjit
