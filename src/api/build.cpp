// build(), load() and tune() of the public API: options in, engines out.
#include "api/internal.h"
// internal.h comes first
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "api/impl.h"
#include "api/values.h"

namespace deepjit {
inline namespace v1 {

namespace {

[[noreturn]] void bad_option(const std::string& message, const std::string& hint = "") {
  throw internal::Error(Code::ARGUMENT, message, hint);
}

Dims to_dims(const std::vector<int64_t>& shape, const std::string& input) {
  if (shape.size() > static_cast<size_t>(kMaxRank)) bad_option("range of input \"" + input + "\": rank above 16");
  return Dims(std::span<const int64_t>(shape));
}

std::set<std::string> pass_names(const std::vector<std::string>& disable) {
  for (const std::string& name : disable) check_switchable(name);
  return {disable.begin(), disable.end()};
}

std::string read_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw internal::Error(Code::FILE_NOT_FOUND, "cannot open \"" + path + "\"");
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

// By temporary file and rename, so that a reader never sees half of it.
void write_text(const std::string& path, const std::string& text) {
  const std::string temporary = path + ".tmp";
  std::ofstream out(temporary, std::ios::binary);
  out << text;
  out.close();
  std::error_code failure;
  if (out) std::filesystem::rename(temporary, path, failure);
  if (!out || failure) {
    std::filesystem::remove(temporary, failure);
    throw internal::Error(Code::DISK_FULL, "cannot write the lockfile \"" + path + "\"");
  }
}

// A user's callback may throw anything; the exception is kept aside while an Error ends the build.
class Callbacks {
 public:
  template <typename F, typename... Args>
  void call(const F& callback, const Args&... args) {
    try {
      callback(args...);
    } catch (...) {
      thrown_ = std::current_exception();
    }
    if (thrown_) throw internal::Error(Code::STATE, "the build was ended by a callback");
  }
  void rethrow() const {
    if (thrown_) std::rethrow_exception(thrown_);
  }

 private:
  std::exception_ptr thrown_;
};

internal::ShapeRange to_range(const ShapeRange& range, const std::string& name) {
  return {to_dims(range.min, name), to_dims(range.opt, name), to_dims(range.max, name)};
}

// What building and tuning share.
template <typename Options>
internal::BuildOptions to_internal_shared(const Options& options, Callbacks& callbacks) {
  if (options.threads < 0) bad_option("threads is " + std::to_string(options.threads) + ", it cannot be negative");
  if (!(options.budget_s >= 0)) bad_option("the build budget must be zero or more seconds");
  internal::BuildOptions out;
  out.device = options.device;
  out.targets = options.targets;
  out.threads = options.threads;
  for (const auto& [name, range] : options.ranges) out.ranges[name] = to_range(range, name);
  out.tune_cache = options.tune_cache;
  if (!options.lock.empty() && std::filesystem::exists(options.lock)) out.lock_text = read_text(options.lock);
  out.force_tactic = options.force_tactic;
  out.tolerance = options.tolerance;
  out.budget_s = options.budget_s;
  if (options.progress) {
    out.progress = [&](const std::string& stage, size_t done, size_t total) {
      callbacks.call(options.progress, stage, done, total);
    };
  }
  if (options.log) {
    out.log = [&](const std::string& line) { callbacks.call(options.log, line); };
  }
  return out;
}

internal::BuildOptions to_internal(const BuildOptions& options, Callbacks& callbacks) {
  internal::BuildOptions out = to_internal_shared(options, callbacks);
  out.device_only = options.device_only;
  out.precision = options.precision;
  for (const std::vector<Input>& sample : options.calib) {
    auto& tensors = out.calib.emplace_back();
    for (const Input& input : sample) {
      const TensorView view = view_of_input(input, "calibration sample \"" + input.name + "\"");
      tensors.emplace(input.name, Tensor(view.dtype, view.dims, view.data, nullptr));
    }
  }
  out.level = options.level;
  for (const auto& [name, more] : options.more_ranges) {
    for (const ShapeRange& range : more) out.more_ranges[name].push_back(to_range(range, name));
  }
  out.disabled_passes = pass_names(options.disable);
  out.tune = options.tune;
  out.model_folder = options.model_folder;
  return out;
}

BuildReport to_public(const internal::BuildReport& report) {
  BuildReport out;
  for (const StageTime& stage : report.stages) out.stages.push_back({stage.stage, stage.seconds});
  out.seconds = report.seconds;
  for (const PassStat& p : report.passes.passes) out.passes.push_back({p.name, p.changed, p.nodes_removed, p.seconds});
  out.nodes_before = report.passes.nodes_before;
  out.nodes_after = report.passes.nodes_after;
  out.steps_measured = report.tuning.measured;
  out.steps_reused = report.tuning.reused;
  out.steps_out_of_budget = report.tuning.out_of_budget;
  out.kernels_compiled = report.tuning.kernels_compiled;
  out.kernels_loaded = report.tuning.kernels_loaded;
  out.compile_seconds = report.tuning.compile_s;
  out.flagged = report.tuning.flagged;
  out.suspicious = report.tuning.suspicious;
  out.arena_bytes = report.arena_bytes;
  out.arena_lower_bound = report.arena_lower_bound;
  out.warnings = report.warnings;
  return out;
}

Engine from_result(internal::BuildResult result, const std::string& lock, Backing backing, const std::string& device) {
  if (!lock.empty() && !std::filesystem::exists(lock)) write_text(lock, result.file.lock_text);
  auto impl = std::make_shared<Engine::Impl>(std::move(result.file.program), std::move(backing), 0, device);
  impl->graph_text = std::move(result.file.graph_text);
  impl->lock_text = std::move(result.file.lock_text);
  impl->edges = std::move(result.file.edges);
  impl->report = to_public(result.report);
  return Engine(std::move(impl));
}

template <typename F>
Engine build_with(const BuildOptions& options, F&& run) {
  Callbacks callbacks;
  try {
    return from_result(run(to_internal(options, callbacks)), options.lock, nullptr, options.device);
  } catch (...) {
    callbacks.rethrow();
    rethrow_public();
  }
}

size_t number_in(const std::map<std::string, std::string>& metadata, const std::string& key) {
  const auto it = metadata.find(key);
  return it == metadata.end() ? 0 : std::strtoull(it->second.c_str(), nullptr, 10);
}

Engine from_file(LoadedFile loaded, int threads, const std::string& device) {
  if (threads < 0) bad_option("threads is " + std::to_string(threads) + ", it cannot be negative");
  auto impl =
      std::make_shared<Engine::Impl>(std::move(loaded.file.program), std::move(loaded.backing), threads, device);
  impl->graph_text = std::move(loaded.file.graph_text);
  impl->lock_text = std::move(loaded.file.lock_text);
  impl->edges = std::move(loaded.file.edges);
  impl->report.arena_bytes = number_in(impl->program().metadata, "plan.arena_bytes");
  impl->report.arena_lower_bound = number_in(impl->program().metadata, "plan.lower_bound");
  return Engine(std::move(impl));
}

std::span<const uint8_t> as_uint8(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()};
}

}  // namespace

Engine build(const std::string& model_path, const BuildOptions& options) {
  return build_with(options, [&](const internal::BuildOptions& o) { return internal::build_file(model_path, o); });
}

Engine build(std::span<const std::byte> model, const BuildOptions& options) {
  return build_with(options, [&](const internal::BuildOptions& o) { return internal::build(as_uint8(model), o); });
}

Engine Engine::tune(const TuneOptions& options) const {
  Callbacks callbacks;
  try {
    const internal::Engine& engine = *impl_->engine;
    engine.check_backing();
    internal::BuildOptions tuning = to_internal_shared(options, callbacks);
    if (tuning.device.empty()) tuning.device = engine.device_name();
    return from_result(tune_engine(file_of(*impl_), tuning), options.lock, engine.backing(), tuning.device);
  } catch (...) {
    callbacks.rethrow();
    rethrow_public();
  }
}

Engine load(const std::string& engine_path, int threads, const std::string& device) {
  return guarded([&] { return from_file(load_engine(engine_path), threads, device); });
}

Engine load(std::span<const std::byte> engine, int threads, const std::string& device) {
  return guarded([&] {
    // Constants are used where they lie, so the copy is aligned as a mapped file would be.
    std::shared_ptr<void> copy(std::aligned_alloc(kSectionAlign, (engine.size() / kSectionAlign + 1) * kSectionAlign),
                               std::free);
    if (!copy) throw std::bad_alloc();
    std::memcpy(copy.get(), engine.data(), engine.size());
    const std::span<const uint8_t> bytes(static_cast<const uint8_t*>(copy.get()), engine.size());
    return from_file(read_engine(bytes, copy), threads, device);
  });
}

}  // namespace v1
}  // namespace deepjit
