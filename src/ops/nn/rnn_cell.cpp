#include "ops/nn/rnn_cell.h"

#include <algorithm>
#include <cctype>
#include <cmath>

namespace deepjit {

namespace {

using Kind = RnnActivation::Kind;

struct KindInfo {
  const char* name;  // in lower case: models spell these in several ways
  Kind kind;
  int parameters;  // how many of alpha, beta the function takes
  float alpha, beta;
};

constexpr KindInfo kKinds[] = {
    {"relu", Kind::RELU, 0, 0, 0},
    {"tanh", Kind::TANH, 0, 0, 0},
    {"sigmoid", Kind::SIGMOID, 0, 0, 0},
    {"affine", Kind::AFFINE, 2, 1, 0},
    {"leakyrelu", Kind::LEAKY_RELU, 1, 0.01f, 0},
    {"thresholdedrelu", Kind::THRESHOLDED_RELU, 1, 1, 0},
    {"scaledtanh", Kind::SCALED_TANH, 2, 1, 1},
    {"hardsigmoid", Kind::HARD_SIGMOID, 2, 0.2f, 0.5f},
    {"elu", Kind::ELU, 1, 1, 0},
    {"softsign", Kind::SOFTSIGN, 0, 0, 0},
    {"softplus", Kind::SOFTPLUS, 0, 0, 0},
};

const KindInfo& info_of(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  for (const KindInfo& info : kKinds) {
    if (name == info.name) return info;
  }
  throw Error(Code::ATTRIBUTE, "activation \"" + name + "\" is not known");
}

template <typename C>
C activate(const RnnActivation& f, C x) {
  const C a = f.alpha, b = f.beta;
  switch (f.kind) {
    case Kind::RELU:
      return x < C(0) ? C(0) : x;
    case Kind::TANH:
      return std::tanh(x);
    case Kind::SIGMOID:
      return C(1) / (C(1) + std::exp(-x));
    case Kind::AFFINE:
      return a * x + b;
    case Kind::LEAKY_RELU:
      return x < C(0) ? a * x : x;
    case Kind::THRESHOLDED_RELU:
      return x > a ? x : C(0);
    case Kind::SCALED_TANH:
      return a * std::tanh(b * x);
    case Kind::HARD_SIGMOID:
      return std::min(std::max(a * x + b, C(0)), C(1));
    case Kind::ELU:
      return x < C(0) ? a * std::expm1(x) : x;
    case Kind::SOFTSIGN:
      return x / (C(1) + std::fabs(x));
    case Kind::SOFTPLUS:
      return std::log1p(std::exp(-std::fabs(x))) + (x > C(0) ? x : C(0));
  }
  return x;
}

}  // namespace

std::vector<RnnActivation> rnn_activations(const Attributes& attrs, size_t directions,
                                           const std::vector<std::string>& defaults) {
  std::vector<std::string> names = attrs.get_strings("activations");
  const size_t count = directions * defaults.size();
  // A forward RNN with ONNX's default list of two names uses the first.
  if (names.size() > count) names.resize(count);
  if (names.empty()) {
    for (size_t d = 0; d < directions; ++d) names.insert(names.end(), defaults.begin(), defaults.end());
  }
  if (names.size() != count) {
    throw Error(Code::ATTRIBUTE,
                "activations has " + std::to_string(names.size()) + " entries, expected " + std::to_string(count));
  }
  const std::vector<float> alphas = attrs.get_floats("activation_alpha"), betas = attrs.get_floats("activation_beta");
  size_t next_alpha = 0, next_beta = 0;
  std::vector<RnnActivation> out;
  for (const std::string& name : names) {
    const KindInfo& info = info_of(name);
    RnnActivation f{info.kind, info.alpha, info.beta};
    if (info.parameters >= 1 && next_alpha < alphas.size()) f.alpha = alphas[next_alpha++];
    if (info.parameters >= 2 && next_beta < betas.size()) f.beta = betas[next_beta++];
    out.push_back(f);
  }
  return out;
}

template <typename C>
void apply_activation(const RnnActivation& f, C clip, C* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    C value = x[i];
    if (clip > C(0)) {
      value = value > clip ? clip : value;
      value = value < -clip ? -clip : value;
    }
    x[i] = activate(f, value);
  }
}
template void apply_activation(const RnnActivation&, float, float*, int64_t);
template void apply_activation(const RnnActivation&, double, double*, int64_t);

int64_t rnn_directions(const Attributes& attrs) {
  const std::string direction = attrs.get_string("direction", "forward");
  if (direction == "forward" || direction == "reverse") return 1;
  if (direction == "bidirectional") return 2;
  throw Error(Code::ATTRIBUTE, "direction has the value \"" + direction + "\"");
}

}  // namespace deepjit
