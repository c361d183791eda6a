// A node seen as y = x * scale + shift, one scale and shift per channel. Part of fold_batchnorm.
#pragma once

#include <optional>
#include <vector>

#include "graph/graph.h"

namespace deepjit {

struct ChannelAffine {
  std::vector<double> scale;
  std::vector<double> shift;
  bool has_shift() const;
  bool has_scale() const;
};

// The elements of `value` per channel, when it is a constant that varies along `axis` (of `rank`) only.
std::optional<std::vector<double>> per_channel(const Value* value, int rank, int axis, int64_t channels);

// `node` as an affine map of its input `x`; nothing when it is something else, or the result is not of x's type.
std::optional<ChannelAffine> as_channel_affine(const Node& node, const Value* x, int axis, int64_t channels);

}  // namespace deepjit
