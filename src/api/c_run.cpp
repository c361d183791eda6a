// The C ABI over the C++ API: contexts and runs.
#include <algorithm>
#include <cstddef>
#include <cstring>

#include "api/c_handles.h"

using namespace deepjit::c_api;  // NOLINT: this file is its C face
using deepjit::DataType;
using deepjit::Error;
using deepjit::MemoryKind;

namespace {

// Holds a context for one call; a second thread gets CONCURRENT_USE.
class Turn {
 public:
  explicit Turn(std::atomic<bool>& flag) : flag_(flag) {
    if (flag_.exchange(true)) {
      throw Error(kConcurrentUse, "a context is used by two threads at once", "create one context for each thread");
    }
  }
  ~Turn() { flag_ = false; }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  std::atomic<bool>& flag_;
};

// Runs by run(inputs), which gives the outputs.
template <typename Run>
void run(deepjit_context* context, const deepjit_tensor* inputs, const int32_t* memory, size_t count, Run&& run) {
  require(context, "context");
  if (count > 0) require(inputs, "inputs");
  const Turn turn(context->running);
  context->outputs.clear();
  context->finished = false;
  const CInputs taken(inputs, count, memory);
  const std::vector<deepjit::Output>& outputs = run(taken.inputs());
  context->outputs.resize(outputs.size());
  context->memory.clear();
  for (size_t i = 0; i < outputs.size(); ++i) {
    context->outputs[i].take(outputs[i]);
    context->memory.push_back(static_cast<int32_t>(outputs[i].memory));
  }
  context->finished = true;
}

// Fields that the caller's version does not have take their defaults.
deepjit_run_options complete(const deepjit_run_options* given) {
  deepjit_run_options options;
  deepjit_run_options_init(&options);
  if (given == nullptr) return options;
  if (given->size < offsetof(deepjit_run_options, after) || given->size > 4096) {
    throw Error(kArgument, "the size field of the run's options is " + std::to_string(given->size),
                "call deepjit_run_options_init first");
  }
  std::memcpy(static_cast<void*>(&options), given, std::min(given->size, sizeof(options)));
  return options;
}

deepjit::Target target_of(const deepjit_tensor& tensor, int32_t memory) {
  require(tensor.name, "the name of an output");
  if (tensor.rank < 0) throw Error(kArgument, "the rank of an output is negative");
  if (tensor.rank > 0) require(tensor.shape, "the shape of an output");
  return {tensor.name,
          static_cast<DataType>(tensor.dtype),
          {tensor.shape, tensor.shape + tensor.rank},
          const_cast<void*>(tensor.data),
          static_cast<MemoryKind>(memory)};
}

deepjit::RunOptions options_of(const deepjit_run_options& o) {
  deepjit::RunOptions options;
  if (o.output_count > 0) require(o.outputs, "outputs");
  for (size_t i = 0; i < o.output_count; ++i) {
    options.outputs.push_back(target_of(o.outputs[i], o.output_memory == nullptr ? DEEPJIT_HOST : o.output_memory[i]));
  }
  options.outputs_on_device = o.outputs_on_device != 0;
  if (o.use_stream != 0) options.stream = o.stream;
  if (o.after_count > 0) require(o.after, "after");
  options.after.assign(o.after, o.after + o.after_count);
  return options;
}

const COutput& finished_output(const deepjit_context* context, size_t index) {
  require(context, "context");
  if (!context->finished) throw Error(kState, "this context has no finished run");
  if (index >= context->outputs.size()) throw Error(kArgument, "there is no output number " + std::to_string(index));
  return context->outputs[index];
}

}  // namespace

extern "C" {

deepjit_status deepjit_context_create(const deepjit_engine* engine, int32_t threads, deepjit_context** context) {
  return status_of([&] {
    require(context, "context");
    *context = nullptr;
    require(engine, "engine");
    *context = new deepjit_context(engine->engine.create_context(threads));
  });
}

deepjit_status deepjit_context_run(deepjit_context* context, const deepjit_tensor* inputs, size_t input_count) {
  return deepjit_context_run_into(context, inputs, input_count, nullptr, nullptr);
}

deepjit_status deepjit_context_run_into(deepjit_context* context, const deepjit_tensor* inputs, size_t input_count,
                                        deepjit_allocate allocate, void* user) {
  return status_of([&] {
    deepjit::OutputAllocator place;
    if (allocate != nullptr) {
      place = [&](size_t i, DataType dtype, std::span<const int64_t> shape) {
        size_t bytes = deepjit::data_type_size(dtype);
        for (int64_t d : shape) bytes *= static_cast<size_t>(d);
        return allocate(i, static_cast<int32_t>(dtype), static_cast<int32_t>(shape.size()), shape.data(), bytes, user);
      };
    }
    run(
        context, inputs, nullptr,
        input_count, [&](const auto& taken) -> const auto& { return context->context.run(taken, place); });
  });
}

void deepjit_run_options_init(deepjit_run_options* options) {
  if (options == nullptr) return;
  *options = deepjit_run_options{};
  options->size = sizeof(*options);
}

deepjit_status deepjit_context_run_with(deepjit_context* context, const deepjit_tensor* inputs, size_t input_count,
                                        const deepjit_run_options* options) {
  return status_of([&] {
    const deepjit_run_options o = complete(options);
    const deepjit::RunOptions own = options_of(o);
    if (o.no_wait != 0 && o.use_stream == 0) {
      throw Error(kArgument, "a run that is not waited for needs a stream", "set use_stream and stream");
    }
    run(
        context, inputs, o.input_memory, input_count, [&](const auto& taken) -> const auto& {
          return o.no_wait != 0 ? context->context.run_async(taken, o.stream, own) : context->context.run(taken, own);
        });
  });
}

deepjit_status deepjit_context_output(const deepjit_context* context, size_t index, deepjit_tensor* output) {
  return status_of([&] {
    require(output, "output");
    *output = finished_output(context, index).tensor();
  });
}

deepjit_status deepjit_context_output_memory(const deepjit_context* context, size_t index, int32_t* memory) {
  return status_of([&] {
    require(memory, "memory");
    finished_output(context, index);
    *memory = context->memory[index];
  });
}

deepjit_status deepjit_context_synchronize(deepjit_context* context) {
  return status_of([&] {
    require(context, "context");
    const Turn turn(context->running);
    context->context.synchronize();
  });
}

void* deepjit_context_stream(const deepjit_context* context) {
  return context == nullptr ? nullptr : context->context.stream();
}

size_t deepjit_context_memory_bytes(const deepjit_context* context) {
  size_t bytes = 0;
  if (context == nullptr || status_of([&] { bytes = context->context.memory_bytes(); }) != DEEPJIT_OK) return 0;
  return bytes;
}

void deepjit_context_free(deepjit_context* context) { delete context; }

deepjit_status deepjit_engine_memory_use(const deepjit_engine* engine, const deepjit_tensor* shapes, size_t count,
                                         deepjit_memory_use* use) {
  return status_of([&] {
    require(engine, "engine");
    require(use, "use");
    if (count > 0) require(shapes, "shapes");
    std::map<std::string, std::vector<int64_t>> given;
    for (size_t i = 0; i < count; ++i) {
      require(shapes[i].name, "the name of an input");
      if (shapes[i].rank < 0) throw Error(kArgument, "the rank of an input is negative");
      if (shapes[i].rank > 0) require(shapes[i].shape, "the shape of an input");
      given[shapes[i].name] = {shapes[i].shape, shapes[i].shape + shapes[i].rank};
    }
    const deepjit::MemoryUse known = engine->engine.memory_use(given);
    *use = {known.constants, known.values, known.scratch, known.inputs, known.outputs, known.total()};
  });
}

}  // extern "C"
