// The public Engine and Context over the runtime's.
#include "api/internal.h"
// internal.h comes first
#include <atomic>
#include <optional>

#include "api/impl.h"
#include "api/values.h"

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

struct Context::Impl {
  Impl(std::shared_ptr<const Engine::Impl> e, int threads) : engine(std::move(e)), context(engine->engine, threads) {
    outputs.resize(engine->outputs.size());
    elements.resize(engine->outputs.size());
    for (size_t i = 0; i < outputs.size(); ++i) {
      outputs[i].name = engine->outputs[i].name;
      outputs[i].dtype = engine->outputs[i].dtype;
    }
  }

  void take_inputs(const std::vector<Input>& inputs);
  void take_input(const Input& input);
  void run(const OutputAllocator& allocate);

  std::shared_ptr<const Engine::Impl> engine;
  internal::Context context;
  std::atomic<bool> running{false};
  std::vector<TensorView> fed;
  std::vector<TensorView> views;
  std::vector<Tensor> collections;  // inputs of the run that is on
  std::vector<Output> outputs;
  std::vector<OutputElements> elements;  // of outputs that are sequences or optionals
};

void Context::Impl::take_input(const Input& input) {
  const std::vector<TensorInfo>& known = engine->inputs;
  size_t i = 0;
  while (i < known.size() && known[i].name != input.name) ++i;
  if (i == known.size()) {
    std::string names;
    for (const TensorInfo& info : known) names += (names.empty() ? "\"" : ", \"") + info.name + "\"";
    throw internal::Error(Code::INPUT_NAME, "there is no input \"" + input.name + "\"; the inputs are " +
                                                (names.empty() ? "none" : names));
  }
  const std::string what = "input \"" + input.name + "\"";
  if (fed[i].dtype != DType::UNDEFINED) throw internal::Error(Code::INPUT_NAME, what + " is given twice");
  fed[i] = view_of_input(input, what);
  if (!is_collection(fed[i].dtype)) return;
  collections.push_back(copy_of_elements(input, what));
  fed[i] = collections.back().view();
}

void Context::Impl::take_inputs(const std::vector<Input>& inputs) {
  fed.assign(engine->inputs.size(), TensorView{});
  collections.clear();
  for (const Input& input : inputs) take_input(input);
}

void Context::Impl::run(const OutputAllocator& allocate) {
  internal::OutputAllocator place;
  if (allocate) {
    place = [&](size_t i, const TensorDesc& desc) {
      return allocate(i, static_cast<DataType>(desc.dtype), std::span<const int64_t>(desc.dims));
    };
  }
  context.run(fed, views, place);
  for (size_t i = 0; i < views.size(); ++i) {
    outputs[i].dtype = static_cast<DataType>(views[i].dtype);
    outputs[i].shape.assign(views[i].dims.begin(), views[i].dims.end());
    outputs[i].data = is_collection(views[i].dtype) ? elements[i].take(views[i]) : views[i].data;
  }
}

Context::Context(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Context::Context(Context&&) noexcept = default;
Context& Context::operator=(Context&&) noexcept = default;
Context::~Context() = default;

const std::vector<Output>& Context::run(const std::vector<Input>& inputs, const OutputAllocator& allocate) {
  guarded([&] {
    // The vectors beside the runtime's own state are not shared among threads either.
    const Exclusive exclusive(impl_->running);
    impl_->take_inputs(inputs);
    impl_->run(allocate);
    impl_->collections.clear();
  });
  return impl_->outputs;
}

size_t Context::memory_bytes() const {
  return guarded([&] {
    const Exclusive exclusive(impl_->running);
    return impl_->context.memory_bytes();
  });
}

int Context::threads() const { return impl_->context.threads(); }

Engine::Engine(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

const std::vector<TensorInfo>& Engine::inputs() const { return impl_->inputs; }
const std::vector<TensorInfo>& Engine::outputs() const { return impl_->outputs; }
const std::map<std::string, std::string>& Engine::metadata() const { return impl_->program().metadata; }
const BuildReport& Engine::report() const { return impl_->report; }
const std::string& Engine::lock_text() const { return impl_->lock_text; }
std::vector<StepInfo> Engine::steps() const { return step_infos(impl_->program()); }
std::vector<WhyEntry> Engine::why() const { return why_entries(impl_->program()); }
std::string Engine::inspect() const { return describe(*impl_); }
int Engine::threads() const { return impl_->threads > 0 ? impl_->threads : impl_->program().threads; }

Context Engine::create_context(int threads) const {
  return guarded([&] {
    if (threads < 0) throw internal::Error(Code::ARGUMENT, "threads cannot be negative");
    return Context(std::make_unique<Context::Impl>(impl_, threads > 0 ? threads : impl_->threads));
  });
}

void Engine::save(const std::string& path) const {
  guarded([&] { save_engine({impl_->program(), impl_->graph_text, impl_->lock_text}, path); });
}

std::vector<std::byte> Engine::serialize() const {
  return guarded([&] {
    const std::vector<uint8_t> bytes = write_engine({impl_->program(), impl_->graph_text, impl_->lock_text});
    const auto* first = reinterpret_cast<const std::byte*>(bytes.data());
    return std::vector<std::byte>(first, first + bytes.size());
  });
}

size_t Engine::weight_bytes() const {
  size_t bytes = 0;
  for (const Buffer& buffer : impl_->program().buffers) {
    if (buffer.constant.defined()) bytes += static_cast<size_t>(buffer.constant.bytes());
  }
  for (const Step& step : impl_->program().steps) {
    for (const PackedOperand& packed : step.tactic.packed) bytes += static_cast<size_t>(packed.data.bytes());
  }
  return bytes;
}

std::string data_type_name(DataType dtype) { return std::string(dtype_name(static_cast<DType>(dtype))); }
size_t data_type_size(DataType dtype) {
  return dtype == DataType::UNDEFINED ? 0 : dtype_size(static_cast<DType>(dtype));
}

std::string version() { return DEEPJIT_VERSION; }

}  // namespace v1
}  // namespace deepjit
