#include <algorithm>
#include <cstring>

#include "kernels/onednn/windows.h"

namespace deepjit::onednn {

namespace {

template <int64_t RUN>
void shuffle_row(const RunShuffle& s, const float* from, float* to) {
  const int64_t run = RUN > 0 ? RUN : s.run;
  for (int64_t h = 0; h < s.height; ++h) {
    const float* source = from + h * run;
    float* target = to + h * s.columns * run;
    for (int64_t c = 0; c < s.columns; ++c, source += s.height * run, target += run) {
      for (int64_t i = 0; i < run; ++i) target[i] = source[i];
    }
  }
}

}  // namespace

WindowCopy::WindowCopy(const ConvGeometry& g, bool channels_last, int64_t batch, int64_t channels, int threads)
    : channels_last_(channels_last), batch_(batch), channels_(channels), threads_(threads) {
  const size_t unused = 3 - g.kernel.size();
  for (size_t i = 0; i < g.kernel.size(); ++i) {
    in_[unused + i] = g.in[i];
    out_[unused + i] = g.out[i];
    kernel_[unused + i] = g.kernel[i];
    strides_[unused + i] = g.strides[i];
    dilations_[unused + i] = g.dilations[i];
    pads_[unused + i] = g.pads_begin[i];
  }
}

void WindowCopy::operator()(const void* from, void* to) const {
  const auto* image = static_cast<const float*>(from);
  auto* rows = static_cast<float*>(to);
  const int64_t depth = channels_ * kernel_[0] * kernel_[1] * kernel_[2];
  const int64_t positions = out_[0] * out_[1] * out_[2], pixels = in_[0] * in_[1] * in_[2];
#pragma omp parallel for num_threads(threads_) if (threads_ > 1 && batch_ * positions * depth > 65536)
  for (int64_t i = 0; i < batch_ * positions; ++i) {
    const int64_t p = i % positions, line = p / out_[2];
    const Three origin{line / out_[1] * strides_[0] - pads_[0], line % out_[1] * strides_[1] - pads_[1],
                       p % out_[2] * strides_[2] - pads_[2]};
    copy_window(image + i / positions * channels_ * pixels, origin, rows + i * depth);
  }
}

void WindowCopy::copy_window(const float* image, const Three& origin, float* to) const {
  const int64_t group = channels_last_ ? channels_ : 1;  // floats of one pixel
  const int64_t planes = channels_last_ ? 1 : channels_;
  for (int64_t c = 0; c < planes; ++c, image += in_[0] * in_[1] * in_[2]) {
    for (int64_t kd = 0; kd < kernel_[0]; ++kd) {
      const int64_t d = origin[0] + kd * dilations_[0];
      for (int64_t kh = 0; kh < kernel_[1]; ++kh) {
        const int64_t h = origin[1] + kh * dilations_[1];
        if (d < 0 || d >= in_[0] || h < 0 || h >= in_[1]) {
          to = std::fill_n(to, kernel_[2] * group, 0.0f);
        } else {
          to = copy_run(image + (d * in_[1] + h) * in_[2] * group, origin[2], to);
        }
      }
    }
  }
}

// The pixels of one row of the window, which starts at `begin`.
float* WindowCopy::copy_run(const float* row, int64_t begin, float* to) const {
  const int64_t group = channels_last_ ? channels_ : 1;
  if (dilations_[2] == 1) {
    const int64_t first = std::clamp<int64_t>(-begin, 0, kernel_[2]);
    const int64_t last = std::clamp<int64_t>(in_[2] - begin, first, kernel_[2]);
    to = std::fill_n(to, first * group, 0.0f);
    const int64_t count = (last - first) * group;
    const float* source = row + (begin + first) * group;
    if (count < 16) {
      for (int64_t i = 0; i < count; ++i) to[i] = source[i];
    } else {
      std::memcpy(to, source, static_cast<size_t>(count) * sizeof(float));
    }
    return std::fill_n(to + count, (kernel_[2] - last) * group, 0.0f);
  }
  for (int64_t k = 0; k < kernel_[2]; ++k) {
    const int64_t w = begin + k * dilations_[2];
    const bool inside = w >= 0 && w < in_[2];
    for (int64_t i = 0; i < group; ++i) to[i] = inside ? row[w * group + i] : 0.0f;
    to += group;
  }
  return to;
}

void RunShuffle::operator()(const void* from, void* to) const {
  const auto* source = static_cast<const float*>(from);
  auto* target = static_cast<float*>(to);
  const int64_t row = columns * height * run;
#pragma omp parallel for num_threads(threads) if (threads > 1 && rows * row > 16384)
  for (int64_t r = 0; r < rows; ++r) {
    if (run == 1) {
      shuffle_row<1>(*this, source + r * row, target + r * row);
    } else if (run == 2) {
      shuffle_row<2>(*this, source + r * row, target + r * row);
    } else if (run == 4) {
      shuffle_row<4>(*this, source + r * row, target + r * row);
    } else {
      shuffle_row<0>(*this, source + r * row, target + r * row);
    }
  }
}

}  // namespace deepjit::onednn
