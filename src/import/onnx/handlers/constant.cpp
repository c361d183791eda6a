// Constant in all its forms becomes a constant of the graph.
#include "import/onnx/node_import.h"
#include "import/onnx/tensor.h"

namespace deepjit::importer {

namespace {

Tensor strings(const std::vector<std::string>& values, const Dims& dims) {
  return Tensor::from<std::string>(DType::STRING, dims, values);
}

Tensor constant_tensor(const Attributes& attrs) {
  static const char* const forms[] = {"value",     "sparse_value", "value_float",  "value_floats",
                                      "value_int", "value_ints",   "value_string", "value_strings"};
  int given = 0;
  for (const char* form : forms) given += attrs.has(form);
  if (given != 1) throw Error(Code::ATTRIBUTE, "expected one value attribute, got " + std::to_string(given));
  if (attrs.has("value")) return *attrs.get_tensor("value");
  if (attrs.has("sparse_value")) return *attrs.get_tensor("sparse_value");
  if (attrs.has("value_float")) return Tensor::scalar_f32(attrs.get_float("value_float", 0));
  if (attrs.has("value_int")) return Tensor::vector_i64(std::vector{attrs.get_int("value_int", 0)}).reshaped({});
  if (attrs.has("value_ints")) return Tensor::vector_i64(attrs.get_ints("value_ints"));
  if (attrs.has("value_string")) return strings({attrs.get_string("value_string", "")}, {});
  if (attrs.has("value_strings")) {
    const std::vector<std::string> values = attrs.get_strings("value_strings");
    return strings(values, {static_cast<int64_t>(values.size())});
  }
  const std::vector<float> values = attrs.get_floats("value_floats");
  return Tensor::from<float>(DType::FLOAT32, {static_cast<int64_t>(values.size())}, values);
}

void constant(NodeImport& node) {
  node.keep_outputs(1);
  node.define_constant(0, constant_tensor(node.attrs));
}

}  // namespace

void add_constant_handlers(HandlerMap& map) { map["Constant"] = constant; }

}  // namespace deepjit::importer
