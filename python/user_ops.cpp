#include "user_ops.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "arrays.h"

namespace deepjit::python {

namespace {

using namespace nanobind::literals;

// A Python object that C++ keeps: it is counted and released under the GIL, whoever lets go of it last. After Python's
// end it is left alone.
std::shared_ptr<const nb::object> kept(nb::object object) {
  return {new nb::object(std::move(object)), [](const nb::object* held) {
            if (!Py_IsInitialized()) return;
            const nb::gil_scoped_acquire gil;
            delete held;
          }};
}

nb::object array_of(const Input& input) { return to_python(Output{input.name, input.dtype, input.shape, input.data}); }

// `call(arrays, attributes)` returns a list of what the user's function gave.
OpReference reference_of(nb::object call, const std::string& name) {
  return [call = kept(std::move(call)), name](const std::vector<Input>& inputs, const OpAttributes& attributes) {
    const nb::gil_scoped_acquire gil;
    nb::list arrays;
    for (const Input& input : inputs) arrays.append(array_of(input));
    nb::dict given;
    for (const auto& [key, value] : attributes) given[key.c_str()] = value;
    const nb::object made = (*call)(arrays, given);
    std::vector<OpResult> results;
    for (nb::handle one : made) {
      results.push_back(to_result(one, "result " + std::to_string(results.size()) + " of the reference of " + name));
    }
    return results;
  };
}

nb::dict to_dict(const OpReport& report) {
  nb::list generated;
  for (DataType dtype : report.generated) generated.append(data_type_name(dtype));
  nb::dict result;
  result["op"] = report.op;
  result["cases"] = report.cases;
  result["elements"] = report.elements;
  result["largest_error"] = report.largest_error;
  result["with_reference"] = report.with_reference;
  result["generated"] = generated;
  return result;
}

TestedOp tested_op(const nb::dict& given) {
  TestedOp op;
  op.definition.name = nb::cast<std::string>(given["name"]);
  op.definition.inputs = nb::cast<std::vector<std::string>>(given["inputs"]);
  op.definition.outputs = nb::cast<std::vector<std::string>>(given["outputs"]);
  op.definition.attributes = nb::cast<std::map<std::string, std::optional<double>>>(given["attributes"]);
  op.definition.expression = nb::cast<std::string>(given["expression"]);
  op.definition.shape = nb::cast<std::string>(given["shape"]);
  const nb::object call = given["reference"];
  if (!call.is_none()) op.test.reference = reference_of(call, op.definition.name);
  for (int dtype : nb::cast<std::vector<int>>(given["dtypes"])) {
    op.test.dtypes.push_back(static_cast<DataType>(dtype));
  }
  op.test.tolerance = nb::cast<double>(given["tolerance"]);
  op.test.check = nb::cast<bool>(given["check"]);
  return op;
}

nb::dict register_one(const nb::dict& given, bool replace) {
  OpReport report;
  {
    const TestedOp op = tested_op(given);
    const nb::gil_scoped_release release;
    report = register_op(op.definition, op.test, replace);
  }
  return to_dict(report);
}

nb::dict check_one(const std::string& name) {
  OpReport report;
  {
    const nb::gil_scoped_release release;
    report = check_op(name);
  }
  return to_dict(report);
}

void register_text(const std::string& json, bool replace) {
  const nb::gil_scoped_release release;
  register_ops(json, replace);
}

bool forget(const std::string& name) {
  const nb::gil_scoped_release release;
  return forget_op(name);
}

}  // namespace

void bind_user_ops(nb::module_& m) {
  m.def("register_op", &register_one, "op"_a, "replace"_a);
  m.def("register_ops", &register_text, "json"_a, "replace"_a);
  m.def("check_op", &check_one, "name"_a);
  m.def("forget_op", &forget, "name"_a);
  m.def("registered_ops", &registered_ops);
}

}  // namespace deepjit::python
