// Activation functions and shared sizes of RNN, GRU and LSTM.
#pragma once

#include <string>
#include <vector>

#include "ops/op.h"

namespace deepjit {

// One activation function with its parameters.
struct RnnActivation {
  enum class Kind {
    RELU,
    TANH,
    SIGMOID,
    AFFINE,
    LEAKY_RELU,
    THRESHOLDED_RELU,
    SCALED_TANH,
    HARD_SIGMOID,
    ELU,
    SOFTSIGN,
    SOFTPLUS
  };
  Kind kind;
  float alpha, beta;
};

// The node's activations, `per_direction` for each direction, or `defaults` repeated. Throws ATTRIBUTE.
std::vector<RnnActivation> rnn_activations(const Attributes& attrs, size_t directions,
                                           const std::vector<std::string>& defaults);

// x[i] = f(clip(x[i])), for n values; clip <= 0 does not clip.
template <typename C>
void apply_activation(const RnnActivation& f, C clip, C* x, int64_t n);

// Number of directions of the "direction" attribute: 1 or 2.
int64_t rnn_directions(const Attributes& attrs);

}  // namespace deepjit
