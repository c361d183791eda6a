// ai.onnx.preview.training: one step of an optimizer is plain arithmetic for each of the optimized tensors.
#include "import/onnx/handlers/arithmetic.h"

namespace deepjit::importer {

namespace {

// The inputs are R (learning rate), T (update count), then the tensors: first all X, then all gradients, then each
// kind of state. The outputs are the new X and the new states in the same order.
struct Tensors {
  size_t count = 0;
  size_t kinds = 0;

  Tensors(const NodeImport& node, size_t kinds) : kinds(kinds) {
    const size_t given = node.input_count() < 2 ? 0 : node.input_count() - 2;
    if (given == 0 || given % kinds != 0) {
      throw Error(Code::ARITY, "expected R, T and " + std::to_string(kinds) + " inputs for each tensor, got " +
                                   std::to_string(node.input_count()) + " inputs");
    }
    count = given / kinds;
  }
  Value* at(const NodeImport& node, size_t kind, size_t i) const { return node.require_input(2 + kind * count + i); }
  void define(NodeImport& node, size_t kind, size_t i, Value* value) const {
    node.define(kind * count + i, "Identity", {value});
  }
};

// R or T as a scalar of the type of `x`.
Value* scalar_as(NodeImport& node, size_t input, Value* x) {
  Value* value = node.require_input(input);
  if (rank_of(value) != 0) value = node.emit("Reshape", {value, node.ints({})});
  return dtype_of(value) != DType::UNDEFINED && dtype_of(value) == dtype_of(x) ? value
                                                                               : node.emit("CastLike", {value, x});
}

// G + norm_coefficient * X
Value* regularized(const Arithmetic& m, const NodeImport& node, Value* x, Value* gradient) {
  const float coefficient = node.attrs.get_float("norm_coefficient", 0);
  return coefficient == 0 ? gradient : m.add(m.mul(x, coefficient), gradient);
}

void adagrad(NodeImport& node) {
  const Tensors tensors(node, 3);
  const float decay = node.attrs.get_float("decay_factor", 0);
  const float epsilon = node.attrs.get_float("epsilon", 1e-6f);
  for (size_t i = 0; i < tensors.count; ++i) {
    Value* x = tensors.at(node, 0, i);
    const Arithmetic m(node, x);
    Value* rate = scalar_as(node, 0, x);
    if (decay != 0) rate = m.div(rate, m.add(m.mul(scalar_as(node, 1, x), decay), 1));
    Value* g = regularized(m, node, x, tensors.at(node, 1, i));
    Value* squares = m.add(tensors.at(node, 2, i), m.mul(g, g));
    Value* step = m.div(m.mul(rate, g), m.add(m.sqrt(squares), epsilon));
    tensors.define(node, 0, i, m.sub(x, step));
    tensors.define(node, 1, i, squares);
  }
}

// T > 0 ? R * sqrt(1 - beta^T) / (1 - alpha^T) : R
Value* adam_rate(NodeImport& node, const Arithmetic& m, Value* x, float alpha, float beta) {
  Value* rate = scalar_as(node, 0, x);
  Value* count = scalar_as(node, 1, x);
  const auto rest = [&](float base) { return m.one_minus(node.emit("Pow", {m.number(base), count})); };
  Value* adjusted = m.div(m.mul(rate, m.sqrt(rest(beta))), rest(alpha));
  return m.where(m.greater(count, 0), adjusted, rate);
}

void adam(NodeImport& node) {
  const Tensors tensors(node, 4);
  const float alpha = node.attrs.get_float("alpha", 0.9f);
  const float beta = node.attrs.get_float("beta", 0.999f);
  const float epsilon = node.attrs.get_float("epsilon", 1e-6f);
  const float post = node.attrs.get_float("norm_coefficient_post", 0);
  for (size_t i = 0; i < tensors.count; ++i) {
    Value* x = tensors.at(node, 0, i);
    const Arithmetic m(node, x);
    Value* g = regularized(m, node, x, tensors.at(node, 1, i));
    Value* mean = m.add(m.mul(tensors.at(node, 2, i), alpha), m.mul(g, 1 - alpha));
    Value* squares = m.add(m.mul(tensors.at(node, 3, i), beta), m.mul(m.mul(g, g), 1 - beta));
    Value* rate = adam_rate(node, m, x, alpha, beta);
    Value* step = m.div(m.mul(rate, mean), m.add(m.sqrt(squares), epsilon));
    tensors.define(node, 0, i, m.mul(m.sub(x, step), 1 - post));
    tensors.define(node, 1, i, mean);
    tensors.define(node, 2, i, squares);
  }
}

void momentum(NodeImport& node) {
  const Tensors tensors(node, 3);
  const float alpha = node.attrs.get_float("alpha", 0);
  const float beta = node.attrs.get_float("beta", 1);
  const std::string mode = node.attrs.get_string("mode", "");
  if (mode != "standard" && mode != "nesterov") throw Error(Code::ATTRIBUTE, "mode must be standard or nesterov");
  for (size_t i = 0; i < tensors.count; ++i) {
    Value* x = tensors.at(node, 0, i);
    const Arithmetic m(node, x);
    Value* rate = scalar_as(node, 0, x);
    Value* g = regularized(m, node, x, tensors.at(node, 1, i));
    Value* first = m.where(m.greater(scalar_as(node, 1, x), 0), m.number(beta), m.number(1));
    Value* velocity = m.add(m.mul(tensors.at(node, 2, i), alpha), m.mul(first, g));
    Value* direction = mode == "nesterov" ? m.add(g, m.mul(velocity, alpha)) : velocity;
    tensors.define(node, 0, i, m.sub(x, m.mul(rate, direction)));
    tensors.define(node, 1, i, velocity);
  }
}

}  // namespace

void add_training_handlers(HandlerMap& map) {
  map["ai.onnx.preview.training.Adagrad"] = adagrad;
  map["ai.onnx.preview.training.Adam"] = adam;
  map["ai.onnx.preview.training.Momentum"] = momentum;
}

}  // namespace deepjit::importer
