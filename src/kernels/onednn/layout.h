// How the step's dims in memory order (NCHW or NHWC, any number of spatial dims) map to oneDNN's logical N, C, ...
#pragma once

#include "kernels/onednn/memory.h"

namespace deepjit::onednn {

struct ActivationLayout {
  int rank = 4;
  bool channels_last = false;

  // Logical dim of the k-th dim in memory.
  std::vector<int> order() const {
    std::vector<int> order{0};
    if (!channels_last) order.push_back(1);
    for (int i = 2; i < rank; ++i) order.push_back(i);
    if (channels_last) order.push_back(1);
    return order;
  }
  // Logical dims of dims in memory order.
  Dims logical(const Dims& dims) const {
    Dims result = dims;
    const std::vector<int> to = order();
    for (int i = 0; i < rank; ++i) result[to[static_cast<size_t>(i)]] = dims[i];
    return result;
  }
  memory::desc desc(DType dtype, const Dims& dims) const { return permuted_desc(dtype, logical(dims), order()); }
  // An operand that broadcasts against a result of this layout: missing leading dims are 1.
  memory::desc operand(DType dtype, Dims dims) const {
    if (dims.rank() > rank) return memory::desc();
    while (dims.rank() < rank) dims.insert(0, 1);
    return desc(dtype, dims);
  }
};

}  // namespace deepjit::onednn
