// Geometry of sliding windows: Conv, ConvTranspose and pooling.
//
// One set of rules, written over the dimension type D: int64_t where shapes are concrete (reference, tactic
// providers), Dim in shape rules. All vectors have one entry per spatial dim.
#pragma once

#include <vector>

#include "ops/op.h"

namespace deepjit {

template <typename D>
struct BasicConvGeometry {
  std::vector<int64_t> kernel, strides, dilations;
  std::vector<D> in, out;               // spatial dims of X and Y
  std::vector<D> pads_begin, pads_end;  // auto_pad already resolved
  int64_t group = 1;

  int spatial() const { return static_cast<int>(kernel.size()); }
  // Extent of the dilated kernel along dim i.
  int64_t extent(size_t i) const { return (kernel[i] - 1) * dilations[i] + 1; }
};
using ConvGeometry = BasicConvGeometry<int64_t>;
using SymbolicConvGeometry = BasicConvGeometry<Dim>;

// `kernel` is W's spatial dims; the kernel_shape attribute, where present, must agree. Throws ATTRIBUTE for
// bad attributes and SHAPE_MISMATCH for a kernel that does not fit into the padded input.
template <typename D>
BasicConvGeometry<D> conv_geometry(const Attributes& attrs, const std::vector<D>& in, std::vector<int64_t> kernel);

// ConvTranspose: out is the result's spatial dims, pads what is cut from the full result.
template <typename D>
BasicConvGeometry<D> conv_transpose_geometry(const Attributes& attrs, const std::vector<D>& in,
                                             std::vector<int64_t> kernel);

// Pooling: kernel_shape is required; with ceil_mode a last window that would start in the end padding is dropped.
template <typename D>
BasicConvGeometry<D> pool_geometry(const Attributes& attrs, const std::vector<D>& in);

// "layout": "NCHW" (default) or "NHWC", for any number of spatial dims.
bool is_channels_last(const Attributes& attrs);

// Dims in memory order of the given layout from batch, channels and spatial dims, and back.
template <typename D>
std::vector<D> join_layout(bool channels_last, const D& batch, const D& channels, const std::vector<D>& spatial) {
  std::vector<D> dims{batch};
  if (!channels_last) dims.push_back(channels);
  dims.insert(dims.end(), spatial.begin(), spatial.end());
  if (channels_last) dims.push_back(channels);
  return dims;
}
template <typename D>
std::vector<D> spatial_dims(bool channels_last, const std::vector<D>& dims) {
  if (dims.size() < 2) {
    throw Error(Code::SHAPE_MISMATCH, "a tensor of rank " + std::to_string(dims.size()) + " has no batch and channels");
  }
  return channels_last ? std::vector<D>(dims.begin() + 1, dims.end() - 1)
                       : std::vector<D>(dims.begin() + 2, dims.end());
}
template <typename D>
const D& channel_dim(bool channels_last, const std::vector<D>& dims) {
  return channels_last ? dims.back() : dims[1];
}
inline std::vector<int64_t> to_vector(const Dims& dims) { return {dims.begin(), dims.end()}; }

// The whole shape rules, also used by fused forms: from the input shapes to the output shape.
// Input 0 is X, 1 is W, 2 the optional bias.
Shape infer_conv_shape(InferContext& ctx);
Shape infer_conv_transpose_shape(InferContext& ctx);

}  // namespace deepjit
