// Ops of the user, in the public API.
#include "api/internal.h"
// internal.h comes first
#include <cstring>

#include "api/impl.h"
#include "deepjit/user_ops.hpp"

namespace deepjit {
inline namespace v1 {

namespace {

// What a reference threw, on its way through code that knows nothing of it.
struct Thrown {
  std::exception_ptr what;
};

template <typename F>
auto checked(F&& body) {
  try {
    return guarded(body);
  } catch (const Thrown& thrown) {
    std::rethrow_exception(thrown.what);
  }
}

[[noreturn]] void bad(const std::string& message, const std::string& hint = "") {
  throw internal::Error(Code::ARGUMENT, message, hint);
}

Tensor tensor_of(const OpResult& result, const std::string& name) {
  if (result.shape.size() > static_cast<size_t>(kMaxRank)) bad("the reference of " + name + " gives rank above 16");
  const auto dtype = static_cast<DType>(result.dtype);
  const size_t size = dtype_size(dtype);
  if (size == 0) bad("the reference of " + name + " gives " + std::string(dtype_name(dtype)));
  const TensorDesc desc{dtype, Dims(std::span<const int64_t>(result.shape))};
  if (static_cast<int64_t>(result.bytes.size()) != desc.bytes()) {
    bad("the reference of " + name + " gives " + std::to_string(result.bytes.size()) + " bytes for a result of shape " +
            desc.dims.to_string() + ", which has " + std::to_string(desc.bytes()),
        "leave the size of OpResult::bytes as it is");
  }
  Tensor tensor(dtype, desc.dims);
  if (!result.bytes.empty()) std::memcpy(tensor.view().data, result.bytes.data(), result.bytes.size());
  return tensor;
}

UserOpReference to_internal(const OpReference& reference, const UserOpDefinition& definition) {
  std::vector<std::string> names;
  for (const std::string& input : definition.inputs) names.push_back(input.substr(0, input.find_first_of(": ")));
  return [reference, names, name = definition.name](const std::vector<TensorView>& inputs,
                                                    const OpAttributes& attributes) {
    std::vector<Input> given;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Dims& dims = inputs[i].dims;
      given.push_back({names[i], static_cast<DataType>(inputs[i].dtype), {dims.begin(), dims.end()}, inputs[i].data});
    }
    std::vector<OpResult> made;
    try {
      made = reference(given, attributes);
    } catch (...) {
      throw Thrown{std::current_exception()};
    }
    std::vector<Tensor> results;
    for (const OpResult& one : made) results.push_back(tensor_of(one, name));
    return results;
  };
}

std::shared_ptr<const UserOpTest> to_internal(const OpTest& test, const UserOpDefinition& definition) {
  UserOpTest out;
  if (test.reference) out.reference = to_internal(test.reference, definition);
  if (test.reference) out.dtypes = {DType::FLOAT32, DType::FLOAT64};
  if (!test.dtypes.empty()) out.dtypes.clear();
  for (DataType dtype : test.dtypes) {
    const auto type = static_cast<DType>(dtype);
    const bool number = is_integer(type) || type == DType::BOOL || dtype_size(type) > 1;
    if (!number) bad("op " + definition.name + ": no test has operands of " + data_type_name(dtype));
    out.dtypes.push_back(type);
  }
  if (!(test.tolerance >= 0)) bad("op " + definition.name + ": the tolerance must be zero or more");
  out.tolerance = test.tolerance;
  return std::make_shared<const UserOpTest>(std::move(out));
}

OpReport to_public(const UserOpReport& report) {
  OpReport out{report.op, report.cases, report.elements, report.largest_error, report.with_reference, {}};
  for (DType dtype : report.generated) out.generated.push_back(static_cast<DataType>(dtype));
  return out;
}

}  // namespace

OpResult::OpResult(DataType dtype, std::vector<int64_t> shape) : dtype(dtype), shape(std::move(shape)) {
  guarded([&] {
    const size_t size = data_type_size(dtype);
    if (size == 0 || this->shape.size() > static_cast<size_t>(kMaxRank)) {
      bad("a result of a reference cannot be " + data_type_name(dtype) + " of rank " +
          std::to_string(this->shape.size()));
    }
    for (int64_t d : this->shape) {
      if (d < 0) bad("a result of a reference has the dim " + std::to_string(d));
    }
    const TensorDesc desc{static_cast<DType>(dtype), Dims(std::span<const int64_t>(this->shape))};
    bytes.resize(static_cast<size_t>(desc.bytes()));
  });
}

std::vector<OpReport> register_ops(const std::vector<TestedOp>& ops, bool replace) {
  return checked([&] {
    std::vector<OpToRegister> entries;
    std::vector<OpReport> reports;
    for (const TestedOp& one : ops) {
      const OpDefinition& d = one.definition;
      const UserOpDefinition definition{d.name, d.inputs, d.outputs, d.attributes, d.expression, d.shape};
      entries.push_back({make_user_op(definition), to_internal(one.test, definition), one.test.check});
    }
    for (const UserOpReport& report : register_tested_ops(entries, replace)) {
      reports.push_back(to_public(report));
    }
    return reports;
  });
}

OpReport register_op(const OpDefinition& definition, const OpTest& test, bool replace) {
  return register_ops({{definition, test}}, replace).front();
}

void register_ops(const std::string& json, bool replace) {
  guarded([&] { register_user_ops(json, replace); });
}

OpReport check_op(const std::string& name) {
  return checked([&] { return to_public(check_user_op(require_user_op(name))); });
}

bool forget_op(const std::string& name) { return forget_user_op(name); }

std::vector<std::string> registered_ops() {
  std::vector<std::string> names;
  for (const auto& [name, unused] : *registered_user_ops()) names.push_back(name);
  return names;
}

std::vector<std::byte> model_of_op(const std::string& name, DataType dtype,
                                   const std::vector<std::vector<std::string>>& shapes) {
  return guarded([&] {
    const auto op = require_user_op(name).op;
    if (shapes.size() != op->inputs.size()) {
      bad(name + " has " + std::to_string(op->inputs.size()) + " inputs, there are " + std::to_string(shapes.size()) +
          " shapes");
    }
    const std::string model = model_of_user_op(*op, static_cast<DType>(dtype), shapes);
    std::vector<std::byte> bytes(model.size());
    std::memcpy(bytes.data(), model.data(), model.size());
    return bytes;
  });
}

namespace detail {

std::vector<int64_t> broadcast(const std::vector<Input>& inputs) {
  return guarded([&] {
    Dims dims;
    for (const Input& input : inputs) dims = broadcast_dims(dims, Dims(std::span<const int64_t>(input.shape)));
    return std::vector<int64_t>(dims.begin(), dims.end());
  });
}

double value_at(const Input& input, size_t at) {
  return guarded([&] {
    const auto dtype = static_cast<DType>(input.dtype);
    auto* data = static_cast<std::byte*>(const_cast<void*>(input.data)) + at * dtype_size(dtype);
    return to_f64(TensorView{dtype, {1}, data}).front();
  });
}

}  // namespace detail

}  // namespace v1
}  // namespace deepjit
