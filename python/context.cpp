#include "context.h"

namespace deepjit::python {

namespace {

using namespace nanobind::literals;

// Marks a context as busy; a second thread gets CONCURRENT_USE.
class Turn {
 public:
  explicit Turn(bool& busy) : busy_(busy) {
    if (busy_) {
      throw Error(801, "a context is used by two threads at once",
                  "create one context for each thread with create_context()");
    }
    busy_ = true;
  }
  ~Turn() { busy_ = false; }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  bool& busy_;
};

}  // namespace

nb::dict PyContext::results_of(const std::vector<Output>& outputs, const Targets& targets,
                               std::vector<nb::object>& arrays) {
  nb::dict result;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Output& output = outputs[i];
    if (output.memory == MemoryKind::HOST) to_python_packed(output);
    if (const auto given = targets.objects.find(output.name); given != targets.objects.end()) {
      arrays[i] = given->second;
    } else if (output.owner) {
      arrays[i] = device_tensor(output);
    } else if (!arrays[i].is_valid()) {
      arrays[i] = to_python(output);
    }
    result[output.name.c_str()] = std::move(arrays[i]);
  }
  return result;
}

// Outputs in fresh arrays.
nb::dict PyContext::run_on_host(const Feeds& feeds) {
  std::vector<nb::object> arrays(engine_.outputs().size());
  const OutputAllocator allocate = [&](size_t i, DataType dtype, std::span<const int64_t> shape) {
    const nb::gil_scoped_acquire gil;
    void* data = nullptr;
    arrays[i] = new_array(dtype, shape, &data);
    return data;
  };
  const std::vector<Output>* outputs = nullptr;
  {
    const nb::gil_scoped_release release;
    outputs = &context.run(feeds.inputs, allocate);
  }
  return results_of(*outputs, {}, arrays);
}

nb::dict PyContext::run_with(const Feeds& feeds, Targets& targets, RunOptions& options, bool wait) {
  options.outputs = std::move(targets.targets);
  options.after = feeds.after;
  options.after.insert(options.after.end(), targets.after.begin(), targets.after.end());
  const std::vector<Output>* outputs = nullptr;
  {
    const nb::gil_scoped_release release;
    outputs = wait ? &context.run(feeds.inputs, options) : &context.run_async(feeds.inputs, *options.stream, options);
  }
  std::vector<nb::object> arrays(outputs->size());
  return results_of(*outputs, targets, arrays);
}

nb::dict PyContext::run(nb::handle inputs, nb::handle outputs, bool on_device, nb::handle stream) {
  const Turn turn(busy_);
  RunOptions options;
  options.outputs_on_device = on_device;
  if (!stream.is_none()) options.stream = stream_handle(stream);
  void* reader = options.stream ? *options.stream : context.stream();
  const Feeds feeds = gather(inputs, engine_, reader, false);
  if (outputs.is_none() && !on_device && !options.stream && feeds.after.empty()) return run_on_host(feeds);
  Targets targets = gather_targets(outputs, engine_, reader, false);
  return run_with(feeds, targets, options, true);
}

nb::dict PyContext::run_async(nb::handle inputs, nb::handle stream, nb::handle outputs) {
  const Turn turn(busy_);
  RunOptions options;
  options.stream = stream_handle(stream);
  Feeds feeds = gather(inputs, engine_, *options.stream, true);
  Targets targets = gather_targets(outputs, engine_, *options.stream, true);
  nb::dict result = run_with(feeds, targets, options, false);
  held_ = std::move(feeds.owners);
  held_.insert(held_.end(), targets.owners.begin(), targets.owners.end());
  return result;
}

void PyContext::synchronize() {
  const Turn turn(busy_);
  {
    const nb::gil_scoped_release release;
    context.synchronize();
  }
  held_.clear();
}

void bind_context(nb::module_& m) {
  nb::class_<PyContext>(m, "Context", "Runs an engine; for one thread at a time. Made by Engine.create_context().")
      .def("run", &PyContext::run, "inputs"_a.none(), "outputs"_a = nb::none(), "on_device"_a = false,
           "stream"_a = nb::none(),
           "Runs once. inputs: dict of name to array (NumPy, DLPack, the CUDA array interface, or what np.asarray\n"
           "takes). Returns a dict of name to fresh NumPy array. Sequences are lists; an empty optional is None. "
           "Raises\n"
           "deepjit.Error 5xx for bad inputs, 801 when another thread runs it.\n"
           "outputs: dict of name to an array or tensor of the caller that the output is written to.\n"
           "on_device: True leaves the other outputs on the device, as deepjit.DeviceTensor.\n"
           "stream: run on this stream of the device (a number, or one of PyTorch, CuPy, cuda.core).")
      .def(
          "run_async", &PyContext::run_async, "inputs"_a.none(), "stream"_a, "outputs"_a = nb::none(),
          "Enqueues a run on a stream and returns. Tensors lie on the device or in page-locked memory, and stay until\n"
          "the stream has come past the run. Outputs that `outputs` does not name are deepjit.DeviceTensor.")
      .def("synchronize", &PyContext::synchronize,
           "Waits for what run_async enqueued, and until the launches of the runs so far are ready to be replayed.")
      .def_prop_ro(
          "stream", [](const PyContext& self) { return reinterpret_cast<uintptr_t>(self.context.stream()); },
          "The stream of runs that name none, as a number; 0 on the CPU.")
      .def_prop_ro(
          "memory_bytes", [](const PyContext& self) { return self.context.memory_bytes(); },
          "Bytes held for intermediate values and outputs.")
      .def_prop_ro(
          "device_bytes", [](const PyContext& self) { return self.context.device_bytes(); },
          "Those of them that lie on the device; 0 on the CPU.")
      .def_prop_ro("threads", [](const PyContext& self) { return self.context.threads(); });
}

}  // namespace deepjit::python
