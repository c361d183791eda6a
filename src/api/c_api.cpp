// The C ABI over the C++ API: handles, statuses, and the last error of each thread.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <optional>

#include "api/c_tensors.h"

using namespace deepjit::c_api;  // NOLINT: this file is its C face
using deepjit::DataType;
using deepjit::Error;

namespace {

constexpr int kHostOom = 601;
constexpr int kConcurrentUse = 801;
constexpr int kState = 803;
constexpr int kInternal = 900;

thread_local std::optional<Error> last_error;

deepjit_status fail(int code, const char* message) noexcept {
  try {
    last_error.emplace(code, message);
  } catch (...) {
    last_error.reset();
  }
  return code;
}

// Runs `body`; whatever it throws becomes a status and the last error.
template <typename F>
deepjit_status status_of(F&& body) noexcept {
  try {
    body();
    return DEEPJIT_OK;
  } catch (const Error& e) {
    try {
      last_error = e;
    } catch (...) {
      last_error.reset();
    }
    return e.code();
  } catch (const std::bad_alloc&) {
    return fail(kHostOom, "host memory is exhausted");
  } catch (const std::exception& e) {
    return fail(kInternal, e.what());
  } catch (...) {
    return fail(kInternal, "an unknown exception");
  }
}

}  // namespace

struct deepjit_engine {
  explicit deepjit_engine(deepjit::Engine e)
      : engine(std::move(e)), inputs(engine.inputs()), outputs(engine.outputs()) {}
  deepjit::Engine engine;
  InfoTable inputs;
  InfoTable outputs;
  mutable std::once_flag described;
  mutable std::string text;  // made when it is first asked for
};

struct deepjit_context {
  explicit deepjit_context(deepjit::Context c) : context(std::move(c)) {}

  deepjit::Context context;
  std::vector<COutput> outputs;  // of the last run, when it succeeded
  bool finished = false;
  std::atomic<bool> running{false};
};

namespace {

deepjit::ShapeRange range_of(const deepjit_range& range) {
  require(range.input, "the input's name of a range");
  if (range.rank < 0) throw Error(kArgument, "the rank of a range is negative");
  if (range.rank > 0) {
    require(range.min, "min of a range");
    require(range.opt, "opt of a range");
    require(range.max, "max of a range");
  }
  const auto list = [&](const int64_t* p) { return std::vector<int64_t>(p, p + range.rank); };
  return {list(range.min), list(range.opt), list(range.max)};
}

// Fields that the caller's version does not have take their defaults.
deepjit_build_options complete(const deepjit_build_options* given) {
  deepjit_build_options options;
  deepjit_build_options_init(&options);
  if (given == nullptr) return options;
  if (given->size < offsetof(deepjit_build_options, ranges) || given->size > 4096) {
    throw Error(kArgument, "the size field of the options is " + std::to_string(given->size),
                "call deepjit_build_options_init first");
  }
  std::memcpy(static_cast<void*>(&options), given, std::min(given->size, sizeof(options)));
  return options;
}

deepjit::BuildOptions options_of(const deepjit_build_options* given) {
  const deepjit_build_options o = complete(given);
  deepjit::BuildOptions out;
  out.device = text_or(o.device, "cpu");
  out.targets = text_or(o.targets, "");
  out.precision = text_or(o.precision, "fp32");
  out.threads = o.threads;
  out.level = o.level;
  out.tune = o.tune != 0;
  if (o.range_count > 0) require(o.ranges, "ranges");
  for (size_t i = 0; i < o.range_count; ++i) {
    deepjit::ShapeRange range = range_of(o.ranges[i]);
    out.ranges[o.ranges[i].input] = std::move(range);
  }
  if (o.disable_count > 0) require(o.disable, "disable");
  for (size_t i = 0; i < o.disable_count; ++i) {
    require(o.disable[i], "a name in disable");
    out.disable.push_back(o.disable[i]);
  }
  out.tune_cache = text_or(o.tune_cache, "");
  out.lock = text_or(o.lock, "");
  out.force_tactic = text_or(o.force_tactic, "");
  out.budget_s = o.budget_s;
  out.tolerance = o.tolerance;
  out.model_folder = text_or(o.model_folder, "");
  if (o.progress) {
    out.progress = [o](const std::string& stage, size_t done, size_t total) {
      if (o.progress(stage.c_str(), done, total, o.user) != 0) throw Error(kState, "the build was ended by its caller");
    };
  }
  if (o.log) {
    out.log = [o](const std::string& line) { o.log(line.c_str(), o.user); };
  }
  return out;
}

template <typename F>
deepjit_status make_engine(deepjit_engine** engine, F&& make) {
  return status_of([&] {
    require(engine, "engine");
    *engine = nullptr;
    *engine = new deepjit_engine(make());
  });
}

std::span<const std::byte> bytes_of(const void* data, size_t bytes) {
  if (bytes > 0) require(data, "the data");
  return {static_cast<const std::byte*>(data), bytes};
}

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

void run(deepjit_context* context, const deepjit_tensor* inputs, size_t count, const deepjit::OutputAllocator& place) {
  require(context, "context");
  if (count > 0) require(inputs, "inputs");
  const Turn turn(context->running);
  context->outputs.clear();
  context->finished = false;
  const CInputs taken(inputs, count);
  const std::vector<deepjit::Output>& outputs = context->context.run(taken.inputs(), place);
  context->outputs.resize(outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) context->outputs[i].take(outputs[i]);
  context->finished = true;
}

}  // namespace

extern "C" {

const char* deepjit_last_error(void) { return last_error ? last_error->what() : ""; }
const char* deepjit_last_error_message(void) { return last_error ? last_error->message().c_str() : ""; }
const char* deepjit_last_error_hint(void) { return last_error ? last_error->hint().c_str() : ""; }

const char* deepjit_status_name(deepjit_status status) {
  thread_local std::string name;
  if (status_of([&] { name = Error(status, "").name(); }) != DEEPJIT_OK) return "UNKNOWN";
  return name.c_str();
}

const char* deepjit_version(void) {
  static const std::string text = deepjit::version();
  return text.c_str();
}

void deepjit_build_options_init(deepjit_build_options* options) {
  if (options == nullptr) return;
  *options = deepjit_build_options{};
  options->size = sizeof(*options);
  options->level = 3;
  options->tune = 1;
}

deepjit_status deepjit_build_file(const char* path, const deepjit_build_options* options, deepjit_engine** engine) {
  return make_engine(engine, [&] {
    require(path, "the path");
    return deepjit::build(std::string(path), options_of(options));
  });
}

deepjit_status deepjit_build_bytes(const void* model, size_t bytes, const deepjit_build_options* options,
                                   deepjit_engine** engine) {
  return make_engine(engine, [&] { return deepjit::build(bytes_of(model, bytes), options_of(options)); });
}

deepjit_status deepjit_load_file(const char* path, int32_t threads, deepjit_engine** engine) {
  return make_engine(engine, [&] {
    require(path, "the path");
    return deepjit::load(std::string(path), threads);
  });
}

deepjit_status deepjit_load_bytes(const void* data, size_t bytes, int32_t threads, deepjit_engine** engine) {
  return make_engine(engine, [&] { return deepjit::load(bytes_of(data, bytes), threads); });
}

deepjit_status deepjit_engine_save(const deepjit_engine* engine, const char* path) {
  return status_of([&] {
    require(engine, "engine");
    require(path, "the path");
    engine->engine.save(path);
  });
}

void deepjit_engine_free(deepjit_engine* engine) { delete engine; }

size_t deepjit_engine_input_count(const deepjit_engine* engine) { return engine ? engine->inputs.size() : 0; }
size_t deepjit_engine_output_count(const deepjit_engine* engine) { return engine ? engine->outputs.size() : 0; }

deepjit_status deepjit_engine_input(const deepjit_engine* engine, size_t index, deepjit_tensor_info* info) {
  return status_of([&] {
    require(engine, "engine");
    engine->inputs.get(index, info);
  });
}

deepjit_status deepjit_engine_output(const deepjit_engine* engine, size_t index, deepjit_tensor_info* info) {
  return status_of([&] {
    require(engine, "engine");
    engine->outputs.get(index, info);
  });
}

const char* deepjit_engine_inspect(const deepjit_engine* engine) {
  if (engine == nullptr) return "";
  status_of([&] { std::call_once(engine->described, [&] { engine->text = engine->engine.inspect(); }); });
  return engine->text.c_str();
}

deepjit_status deepjit_context_create(const deepjit_engine* engine, int32_t threads, deepjit_context** context) {
  return status_of([&] {
    require(context, "context");
    *context = nullptr;
    require(engine, "engine");
    *context = new deepjit_context(engine->engine.create_context(threads));
  });
}

deepjit_status deepjit_context_run(deepjit_context* context, const deepjit_tensor* inputs, size_t input_count) {
  return status_of([&] { run(context, inputs, input_count, nullptr); });
}

deepjit_status deepjit_context_run_into(deepjit_context* context, const deepjit_tensor* inputs, size_t input_count,
                                        deepjit_allocate allocate, void* user) {
  if (allocate == nullptr) return deepjit_context_run(context, inputs, input_count);
  return status_of([&] {
    run(context, inputs, input_count, [&](size_t i, DataType dtype, std::span<const int64_t> shape) {
      size_t bytes = deepjit::data_type_size(dtype);
      for (int64_t d : shape) bytes *= static_cast<size_t>(d);
      return allocate(i, static_cast<int32_t>(dtype), static_cast<int32_t>(shape.size()), shape.data(), bytes, user);
    });
  });
}

deepjit_status deepjit_context_output(const deepjit_context* context, size_t index, deepjit_tensor* output) {
  return status_of([&] {
    require(context, "context");
    require(output, "output");
    if (!context->finished) throw Error(kState, "this context has no finished run");
    if (index >= context->outputs.size()) throw Error(kArgument, "there is no output number " + std::to_string(index));
    *output = context->outputs[index].tensor();
  });
}

size_t deepjit_context_memory_bytes(const deepjit_context* context) {
  size_t bytes = 0;
  if (context == nullptr || status_of([&] { bytes = context->context.memory_bytes(); }) != DEEPJIT_OK) return 0;
  return bytes;
}

void deepjit_context_free(deepjit_context* context) { delete context; }

}  // extern "C"
