// Ops of your own: expressions of what deepjit has, which models may then have nodes of. docs/user_ops.md has the
// rules.
//
//   deepjit::OpDefinition swish;
//   swish.name = "my.ops::Swish";
//   swish.inputs = {"x"};
//   swish.attributes = {{"alpha", 1.0}};
//   swish.expression = "x * sigmoid(alpha * x)";
//   deepjit::register_op(swish, {deepjit::elementwise([](auto x, const deepjit::OpAttributes& a) {
//                          return x[0] / (1 + std::exp(-a.at("alpha") * x[0]));
//                        })});
//
// Threads may register, check and build at once. A build knows the ops that were registered when it began.
#pragma once

#include <algorithm>
#include <optional>

#include "deepjit/deepjit.hpp"

namespace deepjit {
inline namespace v1 {

// As docs/user_ops.md has it. An attribute without a default must be given by every node.
struct OpDefinition {
  std::string name;                 // "my.ops::Swish"
  std::vector<std::string> inputs;  // "x", or with its element type "mask: bool"
  std::vector<std::string> outputs = {"y"};
  std::map<std::string, std::optional<double>> attributes;
  std::string expression;
  std::string shape;  // "" (what the expression yields), an input's name, or "[N, C] -> [N, 1]"
};

// A tensor that a reference returns: dense, row-major, of zeros at first.
struct OpResult {
  OpResult(DataType dtype, std::vector<int64_t> shape);

  DataType dtype;
  std::vector<int64_t> shape;
  std::vector<std::byte> bytes;

  template <typename T>
  std::span<T> values() {
    return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
};

// Elements of an input; T must be the type that its dtype says (floats of 16 bits: uint16_t, or _Float16 for float16).
template <typename T>
std::span<const T> values_of(const Input& input) {
  size_t count = 1;
  for (int64_t d : input.shape) count *= static_cast<size_t>(d);
  return {static_cast<const T*>(input.data), count};
}

// Computes the outputs from the inputs, which come in the op's order; their shapes are alike, or broadcast as the op
// lets them. A result may have a wider type than the op's, and is rounded. An op of float16 is also asked for float32.
// What it throws ends the registration or check and passes through it.
using OpAttributes = std::map<std::string, double>;
using OpReference =
    std::function<std::vector<OpResult>(const std::vector<Input>& inputs, const OpAttributes& attributes)>;

struct OpTest {
  OpReference reference = {};         // empty: the op's generated kernels are compared with its steps one by one
  std::vector<DataType> dtypes = {};  // of inputs without one of their own; empty: float32, float64, and without a
                                      // reference float16
  double tolerance = 0;               // largest error, relative to 0.1 and more; 0: by the type
  bool check = true;                  // false leaves the test to check_op
};

// What check_op did.
struct OpReport {
  std::string op;
  size_t cases = 0;
  size_t elements = 0;  // that were compared
  double largest_error = 0;
  bool with_reference = false;
  std::vector<DataType>
      generated;  // in which every case ran as one generated kernel; in others the steps ran one by one
};

struct TestedOp {
  OpDefinition definition;
  OpTest test;
};

// Makes an op known, once it is tested: it is run as its generated kernel and step by step, on random values, ties,
// zeros of both signs, subnormals, NaN, infinities and extremes, at sizes that leave tails and with operands that
// broadcast, and compared with its reference. Throws STATE (803) when the name has another definition and not
// `replace`; ARGUMENT (804) for a bad definition, whose hint shows the place; 2xx when expression and shape rule
// disagree; RUN_VALUE (506) when the test fails, with the first element that differs. Then everything is as before.
OpReport register_op(const OpDefinition& definition, const OpTest& test = {}, bool replace = false);
// All of them or none. Reports of ops without `check` are empty.
std::vector<OpReport> register_ops(const std::vector<TestedOp>& ops, bool replace = false);
// Those of a JSON text, untested: {"ops": [{"name": "my.ops::Swish", "inputs": ["x"], "expression": "..."}]}.
void register_ops(const std::string& json, bool replace = false);

// Tests a registered op again. Throws ARGUMENT (804) for an unknown name, RUN_VALUE (506) when the test fails.
OpReport check_op(const std::string& name);
// Whether there was such an op. Engines that were built with it stay as they are.
bool forget_op(const std::string& name);
// The names of all registered ops.
std::vector<std::string> registered_ops();
// An ONNX model of one node of a registered op: `shapes` has the dims of each input, numbers or names; inputs without a
// type of their own get `dtype`.
std::vector<std::byte> model_of_op(const std::string& name, DataType dtype,
                                   const std::vector<std::vector<std::string>>& shapes);

namespace detail {

// Where element `at` of a result lies in an operand that is broadcast to it.
inline size_t place_in(const std::vector<int64_t>& operand, const std::vector<int64_t>& result, size_t at) {
  size_t place = 0;
  size_t stride = 1;
  for (size_t i = result.size(), d = operand.size(); i-- > 0 && d > 0;) {
    const auto size = static_cast<size_t>(result[i]);
    const size_t index = size == 0 ? 0 : at % size;
    at = size == 0 ? 0 : at / size;
    --d;
    place += operand[d] == 1 ? 0 : index * stride;
    stride *= static_cast<size_t>(operand[d]);
  }
  return place;
}

std::vector<int64_t> broadcast(const std::vector<Input>& inputs);
// Element `at` of a bool or number.
double value_at(const Input& input, size_t at);

template <typename T, typename F>
OpResult map_elements(const F& f, const std::vector<Input>& inputs, const OpAttributes& attributes, DataType dtype) {
  OpResult result(dtype, broadcast(inputs));
  std::vector<T> operands(inputs.size());
  const std::span<T> out = result.values<T>();
  for (size_t i = 0; i < out.size(); ++i) {
    for (size_t k = 0; k < inputs.size(); ++k) {
      const size_t at = place_in(inputs[k].shape, result.shape, i);
      operands[k] = inputs[k].dtype == dtype ? static_cast<const T*>(inputs[k].data)[at]
                                             : static_cast<T>(value_at(inputs[k], at));
    }
    out[i] = static_cast<T>(f(std::span<const T>(operands), attributes));
  }
  return result;
}

}  // namespace detail

// The reference of an op of elements with one output, of one float type: f(operands, attributes) is the result's value
// from the operands' at one place, as std::span<const float> or std::span<const double>.
template <typename F>
OpReference elementwise(F f) {
  return [f](const std::vector<Input>& inputs, const OpAttributes& attributes) {
    const bool wide =
        std::any_of(inputs.begin(), inputs.end(), [](const Input& x) { return x.dtype == DataType::FLOAT64; });
    std::vector<OpResult> results;
    results.push_back(wide ? detail::map_elements<double>(f, inputs, attributes, DataType::FLOAT64)
                           : detail::map_elements<float>(f, inputs, attributes, DataType::FLOAT32));
    return results;
  };
}

}  // namespace v1
}  // namespace deepjit
