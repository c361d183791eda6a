#include "ops/shape/strided_copy.h"

#include <algorithm>

namespace deepjit {

CopyLoops collapse_loops(const CopyLoops& loops) {
  CopyLoops out;
  for (const CopyLoop& loop : loops) {
    if (loop.size == 1) continue;
    if (!out.empty() && out.back().from == loop.from * loop.size && out.back().to == loop.to * loop.size) {
      out.back() = {out.back().size * loop.size, loop.from, loop.to};
    } else {
      out.push_back(loop);
    }
  }
  return out;
}

CopyLoops dense_loops(const Dims& dims, const Dims& from_strides) {
  const Dims to = dims.strides();
  CopyLoops out;
  for (int i = 0; i < dims.rank(); ++i) out.push_back({dims[i], from_strides[i], to[i]});
  return out;
}

int64_t count_range(const Dims& dims, int begin, int end) {
  int64_t n = 1;
  for (int i = begin; i < end; ++i) n = checked_mul(n, dims[i]);
  return n;
}

namespace {

// Calls body(from offset, to offset) for every index of `loops`, in order.
template <typename F>
void for_each_offset(const CopyLoops& loops, F&& body) {
  const size_t depth = loops.size();
  std::vector<int64_t> index(depth, 0);
  int64_t from = 0;
  int64_t to = 0;
  while (true) {
    body(from, to);
    size_t d = depth;
    while (d > 0) {
      --d;
      from += loops[d].from;
      to += loops[d].to;
      if (++index[d] < loops[d].size) break;
      from -= loops[d].from * loops[d].size;
      to -= loops[d].to * loops[d].size;
      index[d] = 0;
      if (d == 0) return;
    }
    if (depth == 0) return;
  }
}

template <typename T>
void copy_rows(CopyLoops loops, const T* from, T* to) {
  const CopyLoop inner = loops.back();
  loops.pop_back();
  const int64_t n = inner.size;
  if (inner.from == 1 && inner.to == 1) {
    // A call of memcpy costs more than it moves when runs are short.
    const bool is_short = n * static_cast<int64_t>(sizeof(T)) < 64;
    for_each_offset(loops, [&](int64_t f, int64_t t) {
      if (is_short) {
        for (int64_t i = 0; i < n; ++i) to[t + i] = from[f + i];
      } else {
        copy_run(from + f, to + t, n);
      }
    });
  } else if (inner.from == 0 && inner.to == 1) {
    for_each_offset(loops, [&](int64_t f, int64_t t) { std::fill_n(to + t, n, from[f]); });
  } else {
    for_each_offset(loops, [&](int64_t f, int64_t t) {
      for (int64_t i = 0; i < n; ++i) to[t + i * inner.to] = from[f + i * inner.from];
    });
  }
}

// to[j * to_j + i] = from[i * from_i + j]: reads are contiguous in j, writes in i.
template <typename T>
void transpose_block(const T* from, int64_t from_i, T* to, int64_t to_j, int64_t size_i, int64_t size_j) {
  if (size_i <= 8 || size_j <= 8) {
    constexpr int64_t kStrip = 512;
    for (int64_t i0 = 0; i0 < size_i; i0 += kStrip) {
      const int64_t ni = std::min(kStrip, size_i - i0);
      for (int64_t j = 0; j < size_j; ++j) {
        for (int64_t i = i0; i < i0 + ni; ++i) to[j * to_j + i] = from[i * from_i + j];
      }
    }
    return;
  }
  // Each block is read row by row into a small buffer, so that far-apart rows do not evict one another.
  constexpr int64_t kBlock = 16;
  T buffer[kBlock][kBlock];
  for (int64_t j0 = 0; j0 < size_j; j0 += kBlock) {
    const int64_t nj = std::min(kBlock, size_j - j0);
    for (int64_t i0 = 0; i0 < size_i; i0 += kBlock) {
      const int64_t ni = std::min(kBlock, size_i - i0);
      for (int64_t i = 0; i < ni; ++i) {
        const T* row = from + (i0 + i) * from_i + j0;
        if (nj == kBlock) {
          std::memcpy(buffer[i], row, sizeof(buffer[i]));
        } else {
          for (int64_t j = 0; j < nj; ++j) buffer[i][j] = row[j];
        }
      }
      for (int64_t j = 0; j < nj; ++j) {
        T* out = to + (j0 + j) * to_j + i0;
        if (ni == kBlock) {
          for (int64_t i = 0; i < kBlock; ++i) out[i] = buffer[i][j];
        } else {
          for (int64_t i = 0; i < ni; ++i) out[i] = buffer[i][j];
        }
      }
    }
  }
}

}  // namespace

template <typename T>
void copy_strided(const CopyLoops& all, const T* from, T* to) {
  for (const CopyLoop& loop : all) {
    if (loop.size == 0) return;
  }
  CopyLoops loops = collapse_loops(all);
  if (loops.empty()) {
    *to = *from;
    return;
  }
  if constexpr (!std::is_same_v<T, std::string>) {
    const CopyLoop inner = loops.back();
    if (inner.to == 1 && inner.from != 1 && inner.from != 0) {
      const auto contiguous =
          std::find_if(loops.begin(), loops.end(), [](const CopyLoop& loop) { return loop.from == 1; });
      if (contiguous != loops.end()) {
        const CopyLoop other = *contiguous;
        loops.erase(contiguous);
        loops.pop_back();
        for_each_offset(loops, [&](int64_t f, int64_t t) {
          transpose_block(from + f, inner.from, to + t, other.to, inner.size, other.size);
        });
        return;
      }
    }
  }
  copy_rows(std::move(loops), from, to);
}

template void copy_strided<uint8_t>(const CopyLoops&, const uint8_t*, uint8_t*);
template void copy_strided<uint16_t>(const CopyLoops&, const uint16_t*, uint16_t*);
template void copy_strided<uint32_t>(const CopyLoops&, const uint32_t*, uint32_t*);
template void copy_strided<uint64_t>(const CopyLoops&, const uint64_t*, uint64_t*);
template void copy_strided<std::string>(const CopyLoops&, const std::string*, std::string*);

void copy_view(const TensorView& from, int64_t offset, const Dims& from_strides, const TensorView& to) {
  if (to.count() == 0) return;
  visit_movable(to.dtype, [&]<typename T>() {
    copy_strided<T>(dense_loops(to.dims, from_strides), from.as<T>() + offset, to.as<T>());
  });
}

}  // namespace deepjit
