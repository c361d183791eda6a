// The Python module deepjit._core: the C++ API for Python. Options are made ready by deepjit/__init__.py.
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <optional>

#include "arrays.h"
#include "context.h"
#include "user_ops.h"

namespace deepjit::python {

namespace {

using namespace nanobind::literals;

nb::object error_class() { return nb::module_::import_("deepjit._error").attr("Error"); }

// A deepjit::Error leaves as deepjit.Error.
void translate(const std::exception_ptr& thrown, void*) {
  try {
    std::rethrow_exception(thrown);
  } catch (const Error& e) {
    const nb::object type = error_class();
    const nb::object value = type(e.code(), e.name(), e.message(), e.hint());
    PyErr_SetObject(type.ptr(), value.ptr());
  }
}

// An engine and the context that engine.run uses, made at the first run.
struct PyEngine {
  explicit PyEngine(Engine e) : engine(std::move(e)) {}

  nb::object context() {
    if (!default_context.is_valid())
      default_context = nb::cast(new PyContext(engine, 0), nb::rv_policy::take_ownership);
    return default_context;
  }
  size_t memory_bytes() const {
    const size_t held = default_context.is_valid() ? nb::cast<PyContext&>(default_context).context.memory_bytes() : 0;
    return engine.weight_bytes() + held;
  }

  Engine engine;
  nb::object default_context;
};

nb::tuple to_tuple(const std::vector<int64_t>& values) {
  nb::list list;
  for (int64_t v : values) list.append(v);
  return nb::tuple(list);
}

// Constants as int, the rest as text; None when even the rank is open.
nb::object shape_of(const TensorInfo& info) {
  if (!info.ranked) return nb::none();
  nb::list list;
  for (const Dimension& d : info.shape) {
    if (d.value >= 0) {
      list.append(d.value);
    } else {
      list.append(nb::str(d.text.c_str()));
    }
  }
  return nb::tuple(list);
}

nb::object range_of(const TensorInfo& info) {
  if (!info.has_range) return nb::none();
  return nb::make_tuple(to_tuple(info.range.min), to_tuple(info.range.opt), to_tuple(info.range.max));
}

std::string type_text(const TensorInfo& info) {
  std::string text = data_type_name(info.dtype) + "[";
  for (size_t i = 0; i < info.shape.size(); ++i) text += (i ? ", " : "") + info.shape[i].text;
  text += info.ranked ? "]" : "*]";
  return info.element.empty() ? text : text + "(" + type_text(info.element[0]) + ")";
}

std::string repr_of(const TensorInfo& info) { return "<" + info.name + ": " + type_text(info) + ">"; }

nb::dict report_of(const Engine& engine) {
  const BuildReport& report = engine.report();
  nb::list stages;
  for (const BuildReport::Stage& stage : report.stages) {
    nb::dict one;
    one["stage"] = stage.name;
    one["seconds"] = stage.seconds;
    stages.append(one);
  }
  nb::dict tuning;
  tuning["measured"] = report.steps_measured;
  tuning["reused"] = report.steps_reused;
  tuning["out_of_budget"] = report.steps_out_of_budget;
  tuning["kernels_compiled"] = report.kernels_compiled;
  tuning["kernels_loaded"] = report.kernels_loaded;
  tuning["compile_seconds"] = report.compile_seconds;
  tuning["flagged"] = report.flagged;
  tuning["suspicious"] = report.suspicious;
  nb::dict result;
  result["seconds"] = report.seconds;
  result["stages"] = stages;
  nb::list passes;
  for (const auto& pass : report.passes) {
    nb::dict entry;
    entry["name"] = pass.name;
    entry["changed"] = pass.changed;
    entry["nodes_removed"] = pass.nodes_removed;
    entry["seconds"] = pass.seconds;
    passes.append(entry);
  }
  result["passes"] = passes;
  result["nodes_before"] = report.nodes_before;
  result["nodes_after"] = report.nodes_after;
  result["tuning"] = tuning;
  result["arena_bytes"] = report.arena_bytes;
  result["arena_lower_bound"] = report.arena_lower_bound;
  result["weight_bytes"] = engine.weight_bytes();
  result["warnings"] = report.warnings;
  return result;
}

nb::dict memory_use_of(const Engine& engine, const nb::dict& shapes) {
  std::map<std::string, std::vector<int64_t>> given;
  for (const auto& [name, shape] : shapes) {
    given[nb::cast<std::string>(name)] = nb::cast<std::vector<int64_t>>(nb::tuple(nb::borrow(shape)));
  }
  MemoryUse use;
  {
    const nb::gil_scoped_release release;
    use = engine.memory_use(given);
  }
  nb::dict told;
  told["constants"] = use.constants;
  told["values"] = use.values;
  told["scratch"] = use.scratch;
  told["inputs"] = use.inputs;
  told["outputs"] = use.outputs;
  told["total"] = use.total();
  return told;
}

nb::list ranges_of(const Engine& engine) {
  nb::list ranges;
  for (const auto& own : engine.ranges()) {
    nb::dict one;
    for (const auto& [name, range] : own) {
      one[name.c_str()] = nb::make_tuple(to_tuple(range.min), to_tuple(range.opt), to_tuple(range.max));
    }
    ranges.append(one);
  }
  return ranges;
}

nb::list steps_of(const Engine& engine, size_t range) {
  nb::list steps;
  for (const StepInfo& step : engine.steps(range)) {
    nb::dict one;
    one["name"] = step.name;
    one["op"] = step.op;
    one["tactic"] = step.tactic;
    one["time_us"] = step.time_us;
    one["max_error"] = step.max_error;
    one["origins"] = step.origins;
    one["user_ops"] = step.user_ops;
    one["precision"] = step.precision;
    steps.append(one);
  }
  return steps;
}

nb::list why_of(const Engine& engine, size_t range) {
  nb::list entries;
  for (const WhyEntry& entry : engine.why(range)) {
    nb::dict one;
    one["value"] = entry.value;
    one["type"] = entry.type;
    one["producer"] = nb::make_tuple(entry.producer, entry.producer_op);
    one["consumer"] = nb::make_tuple(entry.consumer, entry.consumer_op);
    one["rule"] = entry.rule;
    one["reason"] = entry.reason;
    one["fix"] = entry.fix;
    one["bytes"] = entry.bytes;
    one["bytes_at_opt"] = entry.bytes_at_opt < 0 ? nb::object(nb::none()) : nb::object(nb::cast(entry.bytes_at_opt));
    one["launches"] = entry.launches;
    one["producer_user_ops"] = entry.producer_user_ops;
    one["consumer_user_ops"] = entry.consumer_user_ops;
    entries.append(one);
  }
  return entries;
}

std::span<const std::byte> bytes_of(const nb::bytes& bytes) {
  return {static_cast<const std::byte*>(bytes.data()), bytes.size()};
}

ShapeRange to_range(nb::handle value) {
  const auto part = [&](int i) { return nb::cast<std::vector<int64_t>>(value[i]); };
  return {part(0), part(1), part(2)};
}

// Lets Ctrl-C end a build: signals are looked at whenever the build reports progress.
void check_signals() {
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

// The callable, which the caller keeps, as a callback. None only looks at signals.
std::function<void(const std::string&, size_t, size_t)> progress_of(const nb::object& progress) {
  return [&progress](const std::string& stage, size_t done, size_t total) {
    const nb::gil_scoped_acquire gil;
    check_signals();
    if (!progress.is_none()) progress(stage, done, total);
  };
}

std::function<void(const std::string&)> log_of(const nb::object& log) {
  return [&log](const std::string& line) {
    const nb::gil_scoped_acquire gil;
    log(line);
  };
}

BuildOptions to_options(const nb::dict& given) {
  BuildOptions options;
  options.device = nb::cast<std::string>(given["device"]);
  options.targets = nb::cast<std::string>(given["targets"]);
  options.device_only = nb::cast<bool>(given["device_only"]);
  options.precision = nb::cast<std::string>(given["precision"]);
  options.threads = nb::cast<int>(given["threads"]);
  options.level = nb::cast<int>(given["level"]);
  for (const auto& [name, ranges] : nb::cast<nb::dict>(given["ranges"])) {
    const auto input = nb::cast<std::string>(name);
    for (nb::handle range : nb::cast<nb::list>(ranges)) {
      if (!options.ranges.emplace(input, to_range(range)).second) options.more_ranges[input].push_back(to_range(range));
    }
  }
  options.disable = nb::cast<std::vector<std::string>>(given["disable"]);
  options.tune_cache = nb::cast<std::string>(given["tune_cache"]);
  options.lock = nb::cast<std::string>(given["lock"]);
  options.force_tactic = nb::cast<std::string>(given["force_tactic"]);
  options.tolerance = nb::cast<double>(given["tolerance"]);
  options.budget_s = nb::cast<double>(given["budget"]);
  options.tune = nb::cast<bool>(given["tune"]);
  options.model_folder = nb::cast<std::string>(given["model_folder"]);
  return options;
}

PyEngine build_engine(nb::handle model, const nb::dict& given) {
  BuildOptions options = to_options(given);
  std::deque<Feeds> samples;  // own what the options point to
  for (nb::handle sample : nb::cast<nb::list>(given["calib"])) {
    samples.push_back(gather_arrays(nb::cast<nb::dict>(sample), "calibration sample"));
    options.calib.push_back(samples.back().inputs);
  }
  const nb::object progress = given["progress"];
  const nb::object log = given["log"];
  options.progress = progress_of(progress);
  if (!log.is_none()) options.log = log_of(log);
  const bool in_memory = nb::isinstance<nb::bytes>(model);
  const nb::bytes bytes = in_memory ? nb::borrow<nb::bytes>(model) : nb::bytes("", 0);
  const std::string path = in_memory ? "" : nb::cast<std::string>(model);
  const nb::gil_scoped_release release;
  return PyEngine(in_memory ? build(bytes_of(bytes), options) : build(path, options));
}

// `engine`: an Engine.
PyEngine tune_engine(const PyEngine& self, const nb::dict& given) {
  TuneOptions options;
  options.device = nb::cast<std::string>(given["device"]);
  options.targets = nb::cast<std::string>(given["targets"]);
  options.threads = nb::cast<int>(given["threads"]);
  for (const auto& [name, ranges] : nb::cast<nb::dict>(given["ranges"])) {
    const auto list = nb::cast<nb::list>(ranges);
    if (list.size() != 1) throw Error(804, "tuning takes one range of an input", "for several, build the engine again");
    options.ranges[nb::cast<std::string>(name)] = to_range(list[0]);
  }
  options.tune_cache = nb::cast<std::string>(given["tune_cache"]);
  options.lock = nb::cast<std::string>(given["lock"]);
  options.force_tactic = nb::cast<std::string>(given["force_tactic"]);
  options.tolerance = nb::cast<double>(given["tolerance"]);
  options.budget_s = nb::cast<double>(given["budget"]);
  const nb::object progress = given["progress"];
  const nb::object log = given["log"];
  options.progress = progress_of(progress);
  if (!log.is_none()) options.log = log_of(log);
  const nb::gil_scoped_release release;
  return PyEngine(self.engine.tune(options));
}

PyEngine load_engine(nb::handle source, int threads, const std::string& device) {
  const bool in_memory = nb::isinstance<nb::bytes>(source);
  const nb::bytes bytes = in_memory ? nb::borrow<nb::bytes>(source) : nb::bytes("", 0);
  const std::string path = in_memory ? "" : nb::cast<std::string>(source);
  const nb::gil_scoped_release release;
  return PyEngine(in_memory ? load(bytes_of(bytes), threads, device) : load(path, threads, device));
}

std::vector<Finding> diagnose_model(nb::handle model, const nb::dict& given) {
  DoctorOptions options;
  options.settings = nb::cast<std::vector<std::string>>(given["settings"]);
  options.traffic = nb::cast<std::vector<std::string>>(given["traffic"]);
  options.ignore = nb::cast<std::vector<std::string>>(given["ignore"]);
  options.measure = nb::cast<bool>(given["measure"]);
  options.model_folder = nb::cast<std::string>(given["model_folder"]);
  const bool in_memory = nb::isinstance<nb::bytes>(model);
  const nb::bytes bytes = in_memory ? nb::borrow<nb::bytes>(model) : nb::bytes("", 0);
  const std::string path = in_memory ? "" : nb::cast<std::string>(model);
  const nb::gil_scoped_release release;
  return in_memory ? diagnose(bytes_of(bytes), options) : diagnose(path, options);
}

// The profile's JSON as Python objects; the trace goes to a file when one is named.
nb::object profile(const PyEngine& self, nb::handle mapping, std::optional<int> iterations, double seconds,
                   double warm_up, int contexts, std::optional<int> threads, nb::handle trace) {
  if (iterations && *iterations < 1) throw Error(804, "iterations must be at least 1");
  if (threads && *threads < 1) throw Error(804, "threads must be at least 1");
  const Feeds feeds = gather(mapping, self.engine, nullptr, false);
  const ProfileOptions options{iterations.value_or(0), seconds, warm_up, contexts, threads.value_or(0)};
  Profile result;
  {
    const nb::gil_scoped_release release;
    result = self.engine.profile(feeds.inputs, options);
  }
  if (!trace.is_none()) {
    const nb::object file = nb::module_::import_("builtins").attr("open")(trace, "w");
    file.attr("write")(nb::str(result.trace.c_str()));
    file.attr("close")();
  }
  return nb::module_::import_("json").attr("loads")(nb::str(result.json.c_str()));
}

nb::bytes serialized(const PyEngine& self) {
  std::vector<std::byte> bytes;
  {
    const nb::gil_scoped_release release;
    bytes = self.engine.serialize();
  }
  return nb::bytes(bytes.data(), bytes.size());
}

// Text of a str, bytes or os.PathLike.
std::string path_of(nb::handle path) {
  return nb::cast<std::string>(nb::module_::import_("os").attr("fsdecode")(path));
}

void save(const PyEngine& self, nb::handle where) {
  const std::string path = path_of(where);
  const nb::gil_scoped_release release;
  self.engine.save(path);
}

void bind_tensor_info(nb::module_& m) {
  nb::class_<TensorInfo>(m, "TensorInfo", "One input or output: name, dtype, shape, optional, range, element.")
      .def_ro("name", &TensorInfo::name)
      .def_prop_ro(
          "dtype", [](const TensorInfo& self) { return dtype_object(self.dtype); },
          "np.dtype; \"sequence\" or \"optional\" where it is one.")
      .def_prop_ro("shape", &shape_of, "Tuple of int (constant) and str (symbolic); None when the rank is open.")
      .def_ro("optional", &TensorInfo::optional, "True when the input has a default value.")
      .def_prop_ro("range", &range_of, "(min, opt, max) shapes, or None.")
      .def_prop_ro(
          "element",
          [](const TensorInfo& self) { return self.element.empty() ? nb::none() : nb::cast(self.element[0]); },
          "TensorInfo of what a sequence or optional holds; None for a tensor.")
      .def("__repr__", &repr_of);
}

void bind_finding(nb::module_& m) {
  nb::class_<Finding>(m, "Finding", "A mistake that doctor() found; docs/doctor.md has the rules.")
      .def_ro("rule", &Finding::rule)
      .def_ro("name", &Finding::name)
      .def_ro("severity", &Finding::severity, "\"note\", \"warning\" or \"error\".")
      .def_ro("node", &Finding::node)
      .def_ro("op", &Finding::op)
      .def_ro("value", &Finding::value)
      .def_ro("message", &Finding::message)
      .def_ro("title", &Finding::title)
      .def_ro("why", &Finding::why)
      .def_ro("hint", &Finding::hint)
      .def_ro("nodes", &Finding::nodes)
      .def_ro("bytes", &Finding::bytes)
      .def_ro("time_us", &Finding::time_us)
      .def_ro("fixable", &Finding::fixable)
      .def("__repr__", [](const Finding& self) {
        const std::string where = self.node.empty() ? self.value : self.node;
        return "<" + self.severity + " " + self.rule + " " + self.name + (where.empty() ? "" : " at " + where) + ": " +
               self.message + ">";
      });
}

void bind_engine(nb::module_& m) {
  nb::class_<PyEngine>(m, "Engine", "A built model. Immutable; threads may share it, each with a context of its own.")
      .def(
          "run",
          [](PyEngine& self, nb::handle feeds, nb::handle outputs, bool on_device, nb::handle stream) {
            return nb::cast<PyContext&>(self.context()).run(feeds, outputs, on_device, stream);
          },
          "inputs"_a.none(), "outputs"_a = nb::none(), "on_device"_a = false, "stream"_a = nb::none(),
          "Context.run of this engine's default context.")
      .def(
          "create_context",
          [](const PyEngine& self, std::optional<int> threads) {
            return new PyContext(self.engine, threads.value_or(0));
          },
          "threads"_a = nb::none(), nb::rv_policy::take_ownership,
          "A new context. threads: None takes the number of build() or load().")
      .def_prop_ro("context", &PyEngine::context, "The default context, which run() uses.")
      .def("save", &save, "path"_a, "Writes the engine file, whole or not at all.")
      .def("serialize", &serialized, "The engine file as bytes; deepjit.load() takes them too.")
      .def_prop_ro("inputs", [](const PyEngine& self) { return self.engine.inputs(); })
      .def_prop_ro("outputs", [](const PyEngine& self) { return self.engine.outputs(); })
      .def_prop_ro("metadata", [](const PyEngine& self) { return self.engine.metadata(); })
      .def_prop_ro("threads", [](const PyEngine& self) { return self.engine.threads(); })
      .def_prop_ro("memory_bytes", &PyEngine::memory_bytes, "Bytes of the constants and of the default context.")
      .def(
          "memory_use", [](const PyEngine& self, const nb::dict& shapes) { return memory_use_of(self.engine, shapes); },
          "shapes"_a = nb::dict(),
          "Bytes that one context is going to take, on the device where the engine runs on one, known before any run: "
          "a\n"
          "dict of constants, values, scratch, inputs, outputs and total. shapes: input name to shape; others count "
          "at\n"
          "the largest of their range.")
      .def_prop_ro(
          "device", [](const PyEngine& self) { return self.engine.device(); }, "\"cpu\", or \"cuda:0\".")
      .def_prop_ro(
          "report", [](const PyEngine& self) { return report_of(self.engine); },
          "What the build did: seconds, stages, nodes, tuning counts, arena bytes, warnings.")
      .def_prop_ro(
          "steps", [](const PyEngine& self) { return steps_of(self.engine, 0); },
          "One dict a step: name, op, tactic, time_us, max_error, origins. Of several ranges, those of the first.")
      .def(
          "steps_of", [](const PyEngine& self, size_t range) { return steps_of(self.engine, range); }, "range"_a,
          "The steps as they were tuned for one of the ranges, by its index.")
      .def_prop_ro(
          "ranges", [](const PyEngine& self) { return ranges_of(self.engine); },
          "The shape ranges, each as a dict of input name to (min, opt, max). A run takes the one that its shapes lie "
          "in.")
      .def_prop_ro(
          "lock_text", [](const PyEngine& self) { return self.engine.lock_text(); },
          "The chosen tactics as the text of a lockfile.")
      .def(
          "why", [](const PyEngine& self, size_t range) { return why_of(self.engine, range); }, "range"_a = 0,
          "Every edge between two kernels, the largest first. One dict each: value, type, producer and consumer "
          "(name,\n"
          "op), rule, reason, fix, bytes (an expression), bytes_at_opt, launches. docs/why.md has the rules.")
      .def("profile", &profile, "inputs"_a.none(), nb::kw_only(), "iterations"_a = nb::none(), "seconds"_a = 2.0,
           "warm_up"_a = 1.0, "contexts"_a = 1, "threads"_a = nb::none(), "trace"_a = nb::none(),
           "Runs it on these inputs and says which step takes how long and why, as a dict (docs/profile.md).\n"
           "iterations: profiled runs; None takes as many as fit into `seconds`. warm_up: seconds to run before, at "
           "least.\n"
           "contexts: how many run at once; the first is profiled. trace: a file for a run as a trace for Perfetto.")
      .def(
          "inspect", [](const PyEngine& self) { return self.engine.inspect(); },
          "Inputs, outputs, steps with tactics and times, edges between kernels, the graph before and after the "
          "passes,\n"
          "as text.");
}

}  // namespace

NB_MODULE(_core, m) {
  nb::set_leak_warnings(false);
  import_numpy();
  nb::register_exception_translator(&translate);
  bind_tensor_info(m);
  bind_finding(m);
  bind_device_tensor(m);
  bind_context(m);
  bind_engine(m);
  m.def("build", &build_engine, "model"_a, "options"_a);
  m.def("tune", &tune_engine, "engine"_a, "options"_a);
  m.def("load", &load_engine, "engine"_a, "threads"_a, "device"_a);
  m.def("doctor", &diagnose_model, "model"_a, "options"_a);
  bind_user_ops(m);
  m.def("version", &version);
}

}  // namespace deepjit::python
