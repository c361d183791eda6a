// The public Engine over the runtime's.
#include "api/internal.h"
// internal.h comes first
#include "api/context_impl.h"
#include "api/impl.h"
#include "api/values.h"
#include "program/ranges.h"

#ifndef DEEPJIT_VERSION
#define DEEPJIT_VERSION "0.0.0"
#endif

namespace deepjit {
inline namespace v1 {

namespace {

TensorInfo tensor_info(const std::string& name, const TensorType& type) {
  TensorInfo info;
  info.name = name;
  info.dtype = static_cast<DataType>(type.dtype);
  info.ranked = type.shape.ranked();
  if (type.element != nullptr) info.element.push_back(tensor_info("", *type.element));
  if (!info.ranked) return info;
  for (const Dim& dim : type.shape.dims()) info.shape.push_back({dim.as_const().value_or(-1), dim.to_string()});
  return info;
}

const TensorType& type_of(const Program& program, int32_t buffer) {
  return program.buffers[static_cast<size_t>(buffer)].type;
}

ShapeRange to_public(const internal::ShapeRange& range) {
  return {
      {range.min.begin(), range.min.end()}, {range.opt.begin(), range.opt.end()}, {range.max.begin(), range.max.end()}};
}

const Program& program_of(const Program& program, size_t range) {
  const std::vector<const Program*> all = programs_of(program);
  if (range < all.size()) return *all[range];
  throw internal::Error(Code::ARGUMENT, "the engine has " + std::to_string(all.size()) + " ranges, there is no range " +
                                            std::to_string(range));
}

}  // namespace

Engine::Impl::Impl(Program program, Backing backing, int threads_wanted, const std::string& device)
    : engine(std::make_shared<const internal::Engine>(std::move(program), std::move(backing), device)),
      threads(threads_wanted) {
  const Program& p = engine->program();
  for (const ProgramInput& input : p.inputs) {
    TensorInfo info = tensor_info(input.name, type_of(p, input.buffer));
    info.optional = input.default_value.defined();
    info.has_range = input.has_range;
    if (input.has_range) info.range = to_public(input.range);
    inputs.push_back(std::move(info));
  }
  for (const ProgramOutput& output : p.outputs) outputs.push_back(tensor_info(output.name, type_of(p, output.buffer)));
}

EngineFile file_of(const Engine::Impl& impl) { return {impl.program(), impl.graph_text, impl.lock_text, impl.edges}; }

Engine::Engine(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

const std::vector<TensorInfo>& Engine::inputs() const { return impl_->inputs; }
const std::vector<TensorInfo>& Engine::outputs() const { return impl_->outputs; }
const std::map<std::string, std::string>& Engine::metadata() const { return impl_->program().metadata; }
const BuildReport& Engine::report() const { return impl_->report; }
const std::string& Engine::lock_text() const { return impl_->lock_text; }
std::vector<StepInfo> Engine::steps(size_t range) const {
  return guarded([&] { return step_infos(program_of(impl_->program(), range)); });
}
std::vector<WhyEntry> Engine::why(size_t range) const {
  return guarded([&] { return why_entries(program_of(impl_->program(), range)); });
}
std::vector<std::map<std::string, ShapeRange>> Engine::ranges() const {
  std::vector<std::map<std::string, ShapeRange>> all;
  for (const Program* program : programs_of(impl_->program())) {
    auto& own = all.emplace_back();
    for (const ProgramInput& input : program->inputs) {
      if (input.has_range) own.emplace(input.name, to_public(input.range));
    }
  }
  return all;
}
std::string Engine::inspect() const { return describe(*impl_); }
int Engine::threads() const { return impl_->threads > 0 ? impl_->threads : impl_->program().threads; }

Context Engine::create_context(int threads) const {
  return guarded([&] {
    if (threads < 0) throw internal::Error(Code::ARGUMENT, "threads cannot be negative");
    return Context(std::make_unique<Context::Impl>(impl_, threads > 0 ? threads : impl_->threads));
  });
}

Profile Engine::profile(const std::vector<Input>& inputs, const ProfileOptions& options) const {
  return guarded([&] {
    Context::Impl fed(impl_, 1);
    fed.take_inputs(inputs);
    if (std::count(fed.sides.begin(), fed.sides.end(), Side::DEVICE) > 0) {
      throw internal::Error(Code::ARGUMENT, "a profile takes inputs in host memory");
    }
    return profile_of(*impl_, fed.fed, options);
  });
}

void Engine::save(const std::string& path) const {
  guarded([&] { save_engine(file_of(*impl_), path); });
}

std::vector<std::byte> Engine::serialize() const {
  return guarded([&] {
    const std::vector<uint8_t> bytes = write_engine(file_of(*impl_));
    const auto* first = reinterpret_cast<const std::byte*>(bytes.data());
    return std::vector<std::byte>(first, first + bytes.size());
  });
}

std::string Engine::device() const {
  const std::string& name = impl_->engine->device_name();
  return name == "cuda" ? "cuda:0" : name;
}

MemoryUse Engine::memory_use(const std::map<std::string, std::vector<int64_t>>& shapes) const {
  return guarded([&] {
    std::map<std::string, Dims> given;
    for (const auto& [name, shape] : shapes) given.emplace(name, checked_dims(shape, "the shape of \"" + name + "\""));
    const internal::Engine& engine = *impl_->engine;
    const MemoryNeeds needs = most_memory_needs(engine, given, impl_->threads);
    return MemoryUse{needs.constants, needs.values, needs.scratch, needs.inputs, needs.outputs};
  });
}

size_t Engine::weight_bytes() const { return constant_bytes(impl_->program()); }

std::string data_type_name(DataType dtype) { return std::string(dtype_name(static_cast<DType>(dtype))); }
size_t data_type_size(DataType dtype) {
  return dtype == DataType::UNDEFINED ? 0 : dtype_size(static_cast<DType>(dtype));
}

std::string version() { return DEEPJIT_VERSION; }

}  // namespace v1
}  // namespace deepjit
