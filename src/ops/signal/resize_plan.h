// Resize's attributes and its output shape, resolved; and the interpolation weights of one axis.
#pragma once

#include <vector>

#include "ops/op.h"

namespace deepjit {

enum class ResizeMode { NEAREST, LINEAR, CUBIC };

struct ResizeOptions {
  ResizeMode mode;
  std::string transform, nearest, policy;
  double cubic_a;
  bool antialias, exclude_outside;
  std::vector<int64_t> axes;  // empty: all
};
ResizeOptions resize_options(const Attributes& attrs);

// The axes that roi, scales and sizes refer to, non-negative.
std::vector<int> resize_axes(const ResizeOptions& options, int rank);

// One resized axis: `scale` is what maps coordinates, out the resulting length.
struct ResizeAxis {
  int axis;
  int64_t in, out;
  double scale;
  double roi_start = 0, roi_end = 1;
};

// Output length of an axis for a given scale: rounds down in float arithmetic.
int64_t scaled_length(int64_t in, float scale);
// From scales, or from sizes under keep_aspect_ratio_policy. Throws SHAPE_MISMATCH or RUN_VALUE.
std::vector<ResizeAxis> plan_from_scales(const ResizeOptions& options, const std::vector<int64_t>& in,
                                         const std::vector<float>& scales);
std::vector<ResizeAxis> plan_from_sizes(const ResizeOptions& options, const std::vector<int64_t>& in,
                                        const std::vector<int64_t>& sizes);

// For every output position of an axis the input positions it mixes. `taps` entries a position.
struct ResizeWeights {
  int64_t taps = 0;
  std::vector<int64_t> index;  // [out * taps], all inside the input
  std::vector<double> weight;  // [out * taps]
  std::vector<char> outside;   // [out]: tf_crop_and_resize leaves the input, extrapolation_value applies
};
ResizeWeights resize_weights(const ResizeOptions& options, const ResizeAxis& axis);

}  // namespace deepjit
