// deepjit.Context: runs of an engine with arrays and tensors of Python.
#pragma once

#include <nanobind/nanobind.h>

#include "arrays.h"

namespace deepjit::python {

// What engine.run and context.run work on.
class PyContext {
 public:
  PyContext(Engine e, int threads) : context(e.create_context(threads)), engine_(std::move(e)) {}
  nb::dict run(nb::handle inputs, nb::handle outputs, bool on_device, nb::handle stream);
  nb::dict run_async(nb::handle inputs, nb::handle stream, nb::handle outputs);
  void synchronize();

  Context context;

 private:
  nb::dict results_of(const std::vector<Output>& outputs, const Targets& targets, std::vector<nb::object>& arrays);
  nb::dict run_on_host(const Feeds& feeds);
  nb::dict run_with(const Feeds& feeds, Targets& targets, RunOptions& options, bool wait);

  Engine engine_;
  bool busy_ = false;             // guarded by the GIL; from gathering the inputs to handing out the outputs
  std::vector<nb::object> held_;  // tensors of the last run that was not waited for
};

void bind_context(nb::module_& m);

}  // namespace deepjit::python
