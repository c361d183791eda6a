// The public Engine and Context over the runtime's.
#include "api/internal.h"
// internal.h comes first
#include <atomic>
#include <optional>

#include "api/impl.h"

#ifndef DEEPJIT_VERSION
#define DEEPJIT_VERSION "0.0.0"
#endif

namespace deepjit {
inline namespace v1 {

namespace {

TensorInfo tensor_info(const Program& program, const std::string& name, int32_t buffer) {
  const TensorType& type = program.buffers[static_cast<size_t>(buffer)].type;
  TensorInfo info;
  info.name = name;
  info.dtype = static_cast<DataType>(type.dtype);
  info.ranked = type.shape.ranked();
  if (!info.ranked) return info;
  for (const Dim& dim : type.shape.dims()) info.shape.push_back({dim.as_const().value_or(-1), dim.to_string()});
  return info;
}

ShapeRange to_public(const internal::ShapeRange& range) {
  return {
      {range.min.begin(), range.min.end()}, {range.opt.begin(), range.opt.end()}, {range.max.begin(), range.max.end()}};
}

// One thread at a time in a context: the vectors beside the runtime's own state are not shared either.
class Exclusive {
 public:
  explicit Exclusive(std::atomic<bool>& flag) : flag_(flag) {
    if (flag_.exchange(true)) {
      throw internal::Error(Code::CONCURRENT_USE, "a context is used by two threads at once",
                            "create one context for each thread with create_context()");
    }
  }
  ~Exclusive() { flag_ = false; }
  Exclusive(const Exclusive&) = delete;
  Exclusive& operator=(const Exclusive&) = delete;

 private:
  std::atomic<bool>& flag_;
};

}  // namespace

Engine::Impl::Impl(Program program, std::shared_ptr<const void> keep_alive, int threads_wanted)
    : engine(std::make_shared<const internal::Engine>(std::move(program), std::move(keep_alive))),
      threads(threads_wanted) {
  const Program& p = engine->program();
  for (const ProgramInput& input : p.inputs) {
    TensorInfo info = tensor_info(p, input.name, input.buffer);
    info.optional = input.default_value.defined();
    info.has_range = input.has_range;
    if (input.has_range) info.range = to_public(input.range);
    inputs.push_back(std::move(info));
  }
  for (const ProgramOutput& output : p.outputs) outputs.push_back(tensor_info(p, output.name, output.buffer));
}

struct Context::Impl {
  Impl(std::shared_ptr<const Engine::Impl> e, int threads) : engine(std::move(e)), context(engine->engine, threads) {
    strings.resize(engine->outputs.size());
    outputs.resize(engine->outputs.size());
    for (size_t i = 0; i < outputs.size(); ++i) {
      outputs[i].name = engine->outputs[i].name;
      outputs[i].dtype = engine->outputs[i].dtype;
    }
  }

  void take_inputs(const std::vector<Input>& inputs);
  void take_input(const Input& input);
  void run(const OutputAllocator& allocate);
  void* place(size_t i, const TensorDesc& desc, const OutputAllocator& allocate);

  std::shared_ptr<const Engine::Impl> engine;
  internal::Context context;
  std::atomic<bool> running{false};
  std::vector<TensorView> fed;
  std::vector<TensorView> views;
  std::vector<Tensor> strings;  // outputs of strings
  std::vector<Output> outputs;
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
  if (input.dtype == DataType::UNDEFINED) throw internal::Error(Code::INPUT_DTYPE, what + " has no element type");
  if (input.shape.size() > static_cast<size_t>(kMaxRank)) {
    throw internal::Error(Code::INPUT_SHAPE, what + " has rank " + std::to_string(input.shape.size()) + ", above 16");
  }
  TensorView& view = fed[i];
  view.dtype = static_cast<DType>(input.dtype);
  view.dims = Dims(std::span<const int64_t>(input.shape));
  // Nothing writes to inputs; the view's pointer has no const for the kernels' sake.
  view.data = const_cast<void*>(input.data);
}

void Context::Impl::take_inputs(const std::vector<Input>& inputs) {
  fed.assign(engine->inputs.size(), TensorView{});
  for (const Input& input : inputs) take_input(input);
  for (size_t i = 0; i < fed.size(); ++i) {
    static std::byte nothing[64];
    if (fed[i].data != nullptr || fed[i].dtype == DType::UNDEFINED) continue;
    for (int64_t d : fed[i].dims) {
      if (d == 0) fed[i].data = nothing;
    }
    if (fed[i].data == nullptr) {
      throw internal::Error(Code::ARGUMENT, "input \"" + engine->inputs[i].name + "\": the data pointer is null");
    }
  }
}

void* Context::Impl::place(size_t i, const TensorDesc& desc, const OutputAllocator& allocate) {
  if (desc.dtype == DType::STRING) {
    strings[i] = Tensor(DType::STRING, desc.dims);
    return strings[i].view().data;
  }
  if (!allocate) return nullptr;
  return allocate(i, static_cast<DataType>(desc.dtype), std::span<const int64_t>(desc.dims));
}

void Context::Impl::run(const OutputAllocator& allocate) {
  context.run(fed, views, [&](size_t i, const TensorDesc& desc) { return place(i, desc, allocate); });
  for (size_t i = 0; i < views.size(); ++i) {
    outputs[i].dtype = static_cast<DataType>(views[i].dtype);
    outputs[i].shape.assign(views[i].dims.begin(), views[i].dims.end());
    outputs[i].data = views[i].data;
  }
}

Context::Context(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Context::Context(Context&&) noexcept = default;
Context& Context::operator=(Context&&) noexcept = default;
Context::~Context() = default;

const std::vector<Output>& Context::run(const std::vector<Input>& inputs, const OutputAllocator& allocate) {
  guarded([&] {
    const Exclusive exclusive(impl_->running);
    impl_->take_inputs(inputs);
    impl_->run(allocate);
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
