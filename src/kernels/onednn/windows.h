// Copies between an image and the rows of a matrix product, where no view of the bytes does it.
#pragma once

#include <array>

#include "kernels/onednn/primitive_kernel.h"
#include "ops/linear/conv_shape.h"

namespace deepjit::onednn {

// The windows of a convolution as rows, zeros where a window leaves the image: [batch * positions, K]. K runs over
// (taps, channels) for channels last and over (channels, taps) for channels first.
struct WindowCopy {
  WindowCopy(const ConvGeometry& geometry, bool channels_last, int64_t batch, int64_t channels, int threads);
  void operator()(const void* from, void* to) const;

 private:
  using Three = std::array<int64_t, 3>;  // one spatial dim each, leading ones unused
  void copy_window(const float* image, const Three& origin, float* to) const;
  float* copy_run(const float* row, int64_t begin, float* to) const;

  bool channels_last_;
  int64_t batch_, channels_;
  int threads_;
  Three in_{1, 1, 1}, out_{1, 1, 1}, kernel_{1, 1, 1}, strides_{1, 1, 1}, dilations_{1, 1, 1}, pads_{0, 0, 0};
};

// [rows, columns, height, run] to [rows, height, columns, run]: the products of windows that do not overlap, put
// into the image. `run` is short.
struct RunShuffle {
  int64_t rows, columns, height, run;
  int threads;
  void operator()(const void* from, void* to) const;
};

}  // namespace deepjit::onednn
