// NumPy arrays to tensors and back, without a copy wherever the array is dense, aligned and in native byte order.
// All functions need the GIL.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>  // in every file that casts one: two kinds of cast must not meet

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "deepjit/user_ops.hpp"
#include "device_tensors.h"

namespace deepjit::python {

namespace nb = nanobind;

// Loads NumPy's C interface; once, at import.
void import_numpy();

// A dense copy of what a reference returned; `what` names it in errors: INPUT_DTYPE, INPUT_SHAPE.
OpResult to_result(nb::handle value, const std::string& what);

// The inputs of one run and what keeps their memory alive.
struct Feeds {
  std::vector<Input> inputs;
  std::vector<nb::object> owners;
  std::vector<std::unique_ptr<std::vector<std::string>>> strings;
  std::deque<std::vector<Input>> elements;  // of sequences and optionals
  std::vector<void*> after;                 // streams whose work so far comes first
};

// `feeds` maps names to NumPy arrays, DLPack objects, or anything np.asarray takes; a list or tuple of these for a
// sequence; None for an empty optional. Tensors on the device are taken for work on `stream`, which goes on after the
// call when it is `shared`. Errors: INPUT_NAME, INPUT_DTYPE.
Feeds gather(nb::handle feeds, const Engine& engine, void* stream, bool shared);
// The same of arrays only, for a model that is not built yet; `what` names them in errors.
Feeds gather_arrays(const nb::dict& feeds, const std::string& what);

// Where the caller wants outputs: `given` maps names to dense arrays that can be written, or to tensors on the device.
struct Targets {
  std::vector<Target> targets;
  std::map<std::string, nb::object> objects;  // as they were given
  std::vector<nb::object> owners;
  std::vector<void*> after;
};
Targets gather_targets(nb::handle given, const Engine& engine, void* stream, bool shared);

// A fresh array of this type; `data` receives its memory.
nb::object new_array(DataType dtype, std::span<const int64_t> shape, void** data);

// Brings elements of fewer than eight bits to the form ml_dtypes gives them: the rest of the byte is zero.
void to_python_packed(const Output& output);

// A fresh object for an output that no array was placed for: an array of str objects, a list for a sequence, None for
// an empty optional.
nb::object to_python(const Output& output);

// np.dtype of an element type; its name when the package ml_dtypes is needed and not installed.
nb::object dtype_object(DataType dtype);

}  // namespace deepjit::python
