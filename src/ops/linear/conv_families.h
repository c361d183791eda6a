// The ops that conv.cpp registers but other files define.
#pragma once

#include "ops/op.h"

namespace deepjit {

void add_conv_transpose_ops(OpRegistry& registry);  // conv_transpose.cpp
void add_deform_conv_ops(OpRegistry& registry);     // deform_conv.cpp: DeformConv, Col2Im

// Writes bias[c] (or 0 where bias is nullptr) to every element of channel c.
template <typename C>
void fill_bias(const C* bias, int64_t batch, int64_t channels, int64_t positions, bool channels_last, C* out) {
  for (int64_t n = 0; n < batch; ++n) {
    for (int64_t i = 0; i < (channels_last ? positions : channels); ++i) {
      for (int64_t j = 0; j < (channels_last ? channels : positions); ++j) {
        *out++ = bias == nullptr ? C(0) : bias[channels_last ? j : i];
      }
    }
  }
}

}  // namespace deepjit
