// The C ABI over the C++ API: errors, building and engines. Running is in c_run.cpp.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <new>
#include <optional>

#include "api/c_handles.h"

using namespace deepjit::c_api;  // NOLINT: this file is its C face
using deepjit::Error;

namespace deepjit::c_api {

namespace {

thread_local std::optional<Error> last_error;

}  // namespace

deepjit_status fail(int code, const char* message) noexcept {
  try {
    last_error.emplace(code, message);
  } catch (...) {
    last_error.reset();
  }
  return code;
}

deepjit_status fail_as_thrown() noexcept {
  constexpr int kHostOom = 601, kInternal = 900;
  try {
    throw;
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

}  // namespace deepjit::c_api

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
  out.device_only = o.device_only != 0;
  out.precision = text_or(o.precision, "fp32");
  out.threads = o.threads;
  out.level = o.level;
  out.tune = o.tune != 0;
  if (o.range_count > 0) require(o.ranges, "ranges");
  for (size_t i = 0; i < o.range_count; ++i) {
    deepjit::ShapeRange range = range_of(o.ranges[i]);
    const std::string input = o.ranges[i].input;
    if (out.ranges.count(input) == 0)
      out.ranges.emplace(input, std::move(range));
    else
      out.more_ranges[input].push_back(std::move(range));
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

deepjit_status deepjit_load_file_on(const char* path, int32_t threads, const char* device, deepjit_engine** engine) {
  return make_engine(engine, [&] {
    require(path, "the path");
    return deepjit::load(std::string(path), threads, text_or(device, ""));
  });
}

deepjit_status deepjit_engine_save(const deepjit_engine* engine, const char* path) {
  return status_of([&] {
    require(engine, "engine");
    require(path, "the path");
    engine->engine.save(path);
  });
}

deepjit_status deepjit_engine_tune(const deepjit_engine* engine, const deepjit_build_options* options,
                                   deepjit_engine** tuned) {
  return make_engine(tuned, [&] {
    require(engine, "engine");
    const deepjit::BuildOptions build = options_of(options);
    deepjit::TuneOptions tune;
    tune.device = options == nullptr || options->device == nullptr ? "" : build.device;
    tune.targets = build.targets;
    tune.threads = build.threads;
    tune.ranges = build.ranges;
    tune.tune_cache = build.tune_cache;
    tune.lock = build.lock;
    tune.force_tactic = build.force_tactic;
    tune.tolerance = build.tolerance;
    tune.budget_s = build.budget_s;
    tune.progress = build.progress;
    tune.log = build.log;
    return engine->engine.tune(tune);
  });
}

void deepjit_engine_free(deepjit_engine* engine) { delete engine; }

const char* deepjit_engine_device(const deepjit_engine* engine) { return engine ? engine->device.c_str() : ""; }

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

}  // extern "C"
