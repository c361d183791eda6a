// The public Context over the runtime's.
#include "api/context_impl.h"

namespace deepjit {
inline namespace v1 {

Context::Impl::Impl(std::shared_ptr<const Engine::Impl> e, int threads)
    : engine(std::move(e)), context(engine->engine, threads) {
  outputs.resize(engine->outputs.size());
  elements.resize(engine->outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    outputs[i].name = engine->outputs[i].name;
    outputs[i].dtype = engine->outputs[i].dtype;
  }
}

namespace {

std::string names_of(const std::vector<TensorInfo>& infos) {
  std::string names;
  for (const TensorInfo& info : infos) names += (names.empty() ? "\"" : ", \"") + info.name + "\"";
  return names.empty() ? "none" : names;
}

// infos.size() when there is none.
size_t index_of(const std::vector<TensorInfo>& infos, const std::string& name) {
  size_t i = 0;
  while (i < infos.size() && infos[i].name != name) ++i;
  return i;
}

Side side_of(MemoryKind memory, const std::string& what) {
  if (memory == MemoryKind::HOST) return Side::HOST;
  if (memory == MemoryKind::DEVICE) return Side::DEVICE;
  throw internal::Error(Code::ARGUMENT, what + " lies in no kind of memory that is known");
}

}  // namespace

void Context::Impl::take_input(const Input& input) {
  const size_t i = index_of(engine->inputs, input.name);
  if (i == engine->inputs.size()) {
    throw internal::Error(Code::INPUT_NAME,
                          "there is no input \"" + input.name + "\"; the inputs are " + names_of(engine->inputs));
  }
  const std::string what = "input \"" + input.name + "\"";
  if (fed[i].dtype != DType::UNDEFINED) throw internal::Error(Code::INPUT_NAME, what + " is given twice");
  fed[i] = view_of_input(input, what);
  sides[i] = side_of(input.memory, what);
  if (sides[i] == Side::DEVICE && is_object(fed[i].dtype)) {
    throw internal::Error(Code::ARGUMENT, what + ": a " + data_type_name(input.dtype) + " lies on the host");
  }
  if (!is_collection(fed[i].dtype)) return;
  collections.push_back(copy_of_elements(input, what));
  fed[i] = collections.back().view();
}

void Context::Impl::take_inputs(const std::vector<Input>& inputs) {
  fed.assign(engine->inputs.size(), TensorView{});
  sides.assign(engine->inputs.size(), Side::HOST);
  collections.clear();
  for (const Input& input : inputs) take_input(input);
}

void Context::Impl::take_targets(const std::vector<Target>& given) {
  targets.assign(engine->outputs.size(), nullptr);
  for (const Target& target : given) {
    const size_t i = index_of(engine->outputs, target.name);
    const std::string what = "output \"" + target.name + "\"";
    if (i == targets.size()) {
      throw internal::Error(Code::ARGUMENT, "there is no " + what + "; the outputs are " + names_of(engine->outputs));
    }
    if (targets[i] != nullptr) throw internal::Error(Code::ARGUMENT, what + " is given twice");
    const TensorInfo& info = engine->outputs[i];
    if (is_object(static_cast<DType>(info.dtype))) {
      throw internal::Error(Code::ARGUMENT,
                            what + ": a " + data_type_name(info.dtype) + " goes to no memory of the caller");
    }
    if (target.dtype != info.dtype) {
      throw internal::Error(Code::ARGUMENT, what + ": the memory given is of " + data_type_name(target.dtype) +
                                                ", the output is of " + data_type_name(info.dtype));
    }
    side_of(target.memory, what);
    targets[i] = &target;
  }
}

OutputPlace Context::Impl::place_of(size_t output, const TensorDesc& desc) const {
  const Target* target = targets[output];
  if (target == nullptr) return {};
  const std::string what = "output \"" + target->name + "\"";
  const Dims dims = checked_dims(target->shape, what);
  if (!(dims == desc.dims)) {
    throw internal::Error(Code::ARGUMENT, what + ": the memory given has shape " + dims.to_string() + ", the output " +
                                              desc.dims.to_string());
  }
  static std::byte nothing[64];
  const bool empty = desc.bytes() == 0;
  if (target->data == nullptr && !empty) throw internal::Error(Code::ARGUMENT, what + ": the data pointer is null");
  return {target->data == nullptr ? nothing : target->data, side_of(target->memory, what)};
}

void Context::Impl::run(RunRequest& request) {
  request.inputs = fed;
  request.memory = sides;
  context.run(request, results);
  for (size_t i = 0; i < results.size(); ++i) {
    const TensorView& view = results[i].view;
    outputs[i].dtype = static_cast<DataType>(view.dtype);
    outputs[i].shape.assign(view.dims.begin(), view.dims.end());
    outputs[i].data = is_collection(view.dtype) ? elements[i].take(view) : view.data;
    outputs[i].memory = results[i].side == Side::DEVICE ? MemoryKind::DEVICE : MemoryKind::HOST;
    if (results[i].block != nullptr) {
      outputs[i].owner = DeviceMemory(std::make_shared<DeviceMemory::Block>(std::move(results[i].block)));
    }
  }
  collections.clear();
}

void Context::Impl::run(const std::vector<Input>& inputs, const RunOptions& options, bool wait) {
  take_inputs(inputs);
  take_targets(options.outputs);
  for (Output& output : outputs) output.owner = {};  // may be used again
  RunRequest request;
  request.place = [this](size_t i, const TensorDesc& desc) { return place_of(i, desc); };
  request.keep_on_device = options.outputs_on_device || !wait;
  request.stream = options.stream;
  request.wait = wait;
  request.after = options.after;
  run(request);
}

Context::Context(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Context::Context(Context&&) noexcept = default;
Context& Context::operator=(Context&&) noexcept = default;
Context::~Context() = default;

// The vectors beside the runtime's own state are not shared among threads either: hence Exclusive in each.
const std::vector<Output>& Context::run(const std::vector<Input>& inputs, const OutputAllocator& allocate) {
  guarded([&] {
    const Exclusive exclusive(impl_->running);
    impl_->take_inputs(inputs);
    for (Output& output : impl_->outputs) output.owner = {};
    RunRequest request;
    if (allocate) {
      request.place = [&](size_t i, const TensorDesc& desc) {
        return OutputPlace{allocate(i, static_cast<DataType>(desc.dtype), std::span<const int64_t>(desc.dims))};
      };
    }
    impl_->run(request);
  });
  return impl_->outputs;
}

const std::vector<Output>& Context::run(const std::vector<Input>& inputs, const RunOptions& options) {
  guarded([&] {
    const Exclusive exclusive(impl_->running);
    impl_->run(inputs, options, true);
  });
  return impl_->outputs;
}

const std::vector<Output>& Context::run_async(const std::vector<Input>& inputs, void* stream,
                                              const RunOptions& options) {
  guarded([&] {
    const Exclusive exclusive(impl_->running);
    RunOptions own = options;
    own.stream = stream;
    impl_->run(inputs, own, false);
  });
  return impl_->outputs;
}

void Context::synchronize() {
  guarded([&] {
    const Exclusive exclusive(impl_->running);
    impl_->context.finish();
  });
}

void* Context::stream() const { return impl_->context.stream_handle(); }

size_t Context::memory_bytes() const {
  return guarded([&] {
    const Exclusive exclusive(impl_->running);
    return impl_->context.memory_bytes();
  });
}

size_t Context::device_bytes() const {
  return guarded([&] {
    const Exclusive exclusive(impl_->running);
    return impl_->context.device_bytes();
  });
}

int Context::threads() const { return impl_->context.threads(); }

void* DeviceMemory::data() const { return block_ == nullptr ? nullptr : block_->block->data(); }
size_t DeviceMemory::bytes() const { return block_ == nullptr ? 0 : block_->block->bytes(); }
std::string DeviceMemory::device() const { return block_ == nullptr ? "" : block_->block->device().info().name; }

void DeviceMemory::share() const {
  if (block_ != nullptr) block_->block->share();
}

std::optional<void*> DeviceMemory::stream() const {
  if (block_ == nullptr || block_->block->ready() == nullptr) return std::nullopt;
  return block_->block->stream();
}

void DeviceMemory::wait() const {
  guarded([&] {
    if (block_ != nullptr && block_->block->ready() != nullptr) block_->block->ready()->synchronize();
  });
}

void DeviceMemory::read(void* to, size_t size) const {
  guarded([&] {
    if (size > bytes()) throw internal::Error(Code::ARGUMENT, "the memory has " + std::to_string(bytes()) + " bytes");
    if (size == 0) return;
    const auto stream = block_->block->device().make_stream();
    if (block_->block->ready() != nullptr) stream->wait(*block_->block->ready());
    stream->copy_out(to, data(), size);
    stream->synchronize();
  });
}

void DeviceMemory::wait_on(void* stream) const {
  guarded([&] {
    if (block_ == nullptr) return;
    block_->block->share();
    if (block_->block->ready() == nullptr) return;
    block_->block->device().borrow_stream(stream)->wait(*block_->block->ready());
  });
}

}  // namespace v1
}  // namespace deepjit
