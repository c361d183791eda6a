// Registers an op of its own, tested against a reference, and runs a model with a node of it, through the C++ API.
//
// usage: user_op
#include <cmath>
#include <iostream>

#include "deepjit/user_ops.hpp"

namespace {

// A quick gate: x * sigmoid(alpha * x), plus b where that is positive.
deepjit::OpDefinition gate() {
  deepjit::OpDefinition op;
  op.name = "my.ops::Gate";
  op.inputs = {"x", "b"};
  op.attributes = {{"alpha", 1.5}};  // with its default
  op.expression = "y = x * sigmoid(alpha * x) + max(b, 0)";
  op.shape = "x";  // y is shaped like x
  return op;
}

// What it should compute, for one element: v[0] is x, v[1] is b.
template <typename T>
double gate_of(std::span<const T> v, const deepjit::OpAttributes& attributes) {
  const double positive = v[1] < 0 ? 0 : v[1];  // NaN stays NaN
  return v[0] / (1 + std::exp(-attributes.at("alpha") * v[0])) + positive;
}

void run() {
  const auto reference =
      deepjit::elementwise([](auto v, const deepjit::OpAttributes& attributes) { return gate_of(v, attributes); });
  const deepjit::OpReport report = deepjit::register_op(gate(), {reference});
  std::cout << report.op << ": " << report.cases << " cases agree, the largest error is " << report.largest_error
            << "\n";

  // A model of one node of it; any ONNX model with nodes of my.ops::Gate would do.
  const std::vector<std::byte> model = deepjit::model_of_op("my.ops::Gate", deepjit::DataType::FLOAT32, {{"N"}, {"1"}});
  deepjit::Context context = deepjit::build(model).create_context();
  const float x[] = {-2, -1, 0, 1, 2};
  const float b[] = {0.5};
  const auto& outputs =
      context.run({{"x", deepjit::DataType::FLOAT32, {5}, x}, {"b", deepjit::DataType::FLOAT32, {1}, b}});
  for (int i = 0; i < 5; ++i) std::cout << static_cast<const float*>(outputs.at(0).data)[i] << "\n";
}

}  // namespace

int main() {
  try {
    run();
  } catch (const deepjit::Error& e) {
    std::cerr << e.what() << "\n";
    return 1;
  }
  return 0;
}
