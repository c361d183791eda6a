// Walks sliding windows over an image of any number of spatial dims and either layout: the index work that
// convolution (im2col), transposed convolution (col2im) and their direct forms share.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "ops/linear/conv_shape.h"

namespace deepjit {

// Windows over an image: window position w, kernel position k touch image index w * stride - pad + k * dilation.
struct WindowMap {
  std::vector<int64_t> kernel, strides, dilations, pads_begin;
  std::vector<int64_t> image, windows;  // spatial dims of the image, and the number of windows along each
  std::vector<int64_t> image_strides;   // elements between neighbours along each spatial dim
  int64_t channel_stride = 1;           // elements between channels

  int64_t kernel_count() const { return product(kernel); }
  int64_t window_count() const { return product(windows); }
  int64_t image_count() const { return product(image); }

  // Every window is exactly one image position, in order.
  bool is_identity() const {
    for (size_t i = 0; i < kernel.size(); ++i) {
      if (kernel[i] != 1 || strides[i] != 1 || pads_begin[i] != 0 || image[i] != windows[i]) return false;
    }
    return true;
  }

  static int64_t product(const std::vector<int64_t>& dims) {
    int64_t n = 1;
    for (int64_t d : dims) n = checked_mul(n, d);
    return n;
  }
};

// `transposed`: the image is the result (g.out) and the windows are the input's positions.
inline WindowMap window_map(const ConvGeometry& g, bool channels_last, int64_t channels, bool transposed = false) {
  WindowMap m{g.kernel, g.strides, g.dilations, g.pads_begin, g.in, g.out, {}, 1};
  if (transposed) std::swap(m.image, m.windows);
  m.image_strides.resize(m.image.size());
  int64_t stride = channels_last ? channels : 1;
  for (size_t i = m.image.size(); i-- > 0;) {
    m.image_strides[i] = stride;
    stride *= m.image[i];
  }
  m.channel_stride = channels_last ? 1 : stride;
  return m;
}

// Of `count` positions at start, start + step, ... (step > 0) those in [first, last): from .first to before .second.
inline std::pair<int64_t, int64_t> positions_between(int64_t start, int64_t step, int64_t count, int64_t first,
                                                     int64_t last) {
  const auto reach = [&](int64_t bound) { return bound <= start ? 0 : (bound - start + step - 1) / step; };
  const int64_t lo = std::min(reach(first), count);
  return {lo, std::max(lo, std::min(reach(last), count))};
}

// The kernel positions (row-major over the kernel) that touch the image in some window. A kernel may be far larger than
// the image.
inline std::vector<int64_t> touching_taps(const WindowMap& m) {
  m.kernel_count();  // throws where it overflows
  std::vector<int64_t> taps = {0};
  for (size_t i = 0; i < m.kernel.size(); ++i) {
    const int64_t reach = (std::max<int64_t>(m.windows[i], 1) - 1) * m.strides[i];  // of the windows' beginnings
    const auto [lo, hi] = positions_between(-m.pads_begin[i], m.dilations[i], m.kernel[i], -reach, m.image[i]);
    std::vector<int64_t> next;
    for (int64_t tap : taps) {
      for (int64_t k = lo; k < hi; ++k) next.push_back(tap * m.kernel[i] + k);
    }
    taps = std::move(next);
  }
  return taps;
}

// A run of windows along the last dim. Of its `count` windows, first in column `column` (counted from p0), those
// in [lo, hi) touch the image, window j at element offset + j * step; the others touch padding.
struct WindowRun {
  int64_t column, count, lo, hi, offset, step;
};

// Calls f(WindowRun) for the windows [p0, p1) at kernel position `tap` (row-major over the kernel).
template <typename F>
void for_each_run(const WindowMap& m, int64_t tap, int64_t p0, int64_t p1, F&& f) {
  const size_t rank = m.kernel.size();
  const size_t last = rank - 1;
  int64_t at[kMaxRank] = {};  // image index of window 0 along each dim
  for (size_t i = rank; i-- > 0;) {
    at[i] = (tap % m.kernel[i]) * m.dilations[i] - m.pads_begin[i];
    tap /= m.kernel[i];
  }
  const int64_t width = m.windows[last];
  const int64_t stride = m.strides[last];
  for (int64_t p = p0; p < p1;) {
    const int64_t first = p % width;
    WindowRun run{p - p0, std::min(width - first, p1 - p), 0, 0, 0, stride * m.image_strides[last]};
    int64_t line = p / width;
    bool inside = true;
    for (size_t i = last; i-- > 0;) {
      const int64_t x = at[i] + (line % m.windows[i]) * m.strides[i];
      line /= m.windows[i];
      inside = inside && x >= 0 && x < m.image[i];
      run.offset += x * m.image_strides[i];
    }
    const int64_t start = at[last] + first * stride;
    run.offset += start * m.image_strides[last];
    if (inside) {
      run.lo = std::clamp<int64_t>(start >= 0 ? 0 : (-start + stride - 1) / stride, 0, run.count);
      const int64_t room = m.image[last] - start;
      run.hi = std::clamp<int64_t>(room <= 0 ? 0 : (room + stride - 1) / stride, run.lo, run.count);
    }
    f(run);
    p += run.count;
  }
}

// columns[(channel * taps + tap) * (p1 - p0) + window] = the image's element, 0 in the padding.
template <typename C>
void im2col(const WindowMap& m, const C* image, int64_t channels, int64_t p0, int64_t p1, C* columns) {
  const int64_t taps = m.kernel_count();
  for (int64_t tap = 0; tap < taps; ++tap) {
    for_each_run(m, tap, p0, p1, [&](const WindowRun& r) {
      for (int64_t c = 0; c < channels; ++c) {
        C* out = columns + (c * taps + tap) * (p1 - p0) + r.column;
        const C* in = image + c * m.channel_stride + r.offset;
        std::fill(out, out + r.lo, C(0));
        std::fill(out + r.hi, out + r.count, C(0));
        if (r.step == 1) {
          std::copy(in + r.lo, in + r.hi, out + r.lo);
        } else {
          for (int64_t j = r.lo; j < r.hi; ++j) out[j] = in[j * r.step];
        }
      }
    });
  }
}

// The reverse: adds every column element to the image element it came from.
template <typename C>
void col2im(const WindowMap& m, const C* columns, int64_t channels, int64_t p0, int64_t p1, C* image) {
  const int64_t taps = m.kernel_count();
  for (int64_t tap = 0; tap < taps; ++tap) {
    for_each_run(m, tap, p0, p1, [&](const WindowRun& r) {
      for (int64_t c = 0; c < channels; ++c) {
        const C* in = columns + (c * taps + tap) * (p1 - p0) + r.column;
        C* out = image + c * m.channel_stride + r.offset;
        for (int64_t j = r.lo; j < r.hi; ++j) out[j * r.step] += in[j];
      }
    });
  }
}

// How many windows to treat at once so that `rows` values each stay in the second-level cache.
inline int64_t window_block(int64_t rows, int64_t windows) {
  return std::clamp<int64_t>((int64_t{1} << 17) / std::max<int64_t>(rows, 1), std::min<int64_t>(64, windows),
                             std::max<int64_t>(windows, 1));
}

}  // namespace deepjit
