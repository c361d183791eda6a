#include "ops/linear/gemm.h"

#include <algorithm>
#include <type_traits>

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define DEEPJIT_AVX2 1
#endif

namespace deepjit {

namespace {

constexpr int64_t kRows = 4;      // rows of C in one register tile
constexpr int64_t kColumns = 16;  // columns of C in one register tile
constexpr int64_t kDepth = 256;   // k per block: one packed panel of B stays in the first-level cache
constexpr int64_t kPanel = 64;    // rows of A packed at once

// tile[kRows][kColumns] = a^T b, with a packed [depth][kRows] and b packed [depth][kColumns].
template <typename T>
void multiply_tile(int64_t depth, const T* __restrict a, const T* __restrict b, T* __restrict tile) {
  T sums[kRows * kColumns] = {};
  for (int64_t p = 0; p < depth; ++p) {
    for (int64_t i = 0; i < kRows; ++i) {
      for (int64_t j = 0; j < kColumns; ++j) sums[i * kColumns + j] += a[p * kRows + i] * b[p * kColumns + j];
    }
  }
  std::copy_n(sums, kRows * kColumns, tile);
}

#ifdef DEEPJIT_AVX2
__attribute__((target("avx2,fma"))) void multiply_tile_avx2(int64_t depth, const float* a, const float* b,
                                                            float* tile) {
  __m256 sums[kRows][2];
#pragma GCC unroll 4
  for (int i = 0; i < kRows; ++i) sums[i][0] = sums[i][1] = _mm256_setzero_ps();
  for (int64_t p = 0; p < depth; ++p, a += kRows, b += kColumns) {
    const __m256 b0 = _mm256_load_ps(b);
    const __m256 b1 = _mm256_load_ps(b + 8);
#pragma GCC unroll 4
    for (int i = 0; i < kRows; ++i) {
      const __m256 value = _mm256_broadcast_ss(a + i);
      sums[i][0] = _mm256_fmadd_ps(value, b0, sums[i][0]);
      sums[i][1] = _mm256_fmadd_ps(value, b1, sums[i][1]);
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < kRows; ++i) {
    _mm256_store_ps(tile + i * kColumns, sums[i][0]);
    _mm256_store_ps(tile + i * kColumns + 8, sums[i][1]);
  }
}
#endif

template <typename T>
using TileKernel = void (*)(int64_t, const T*, const T*, T*);

template <typename T>
TileKernel<T> tile_kernel() {
#ifdef DEEPJIT_AVX2
  if constexpr (std::is_same_v<T, float>) {
    static const bool fast = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (fast) return multiply_tile_avx2;
  }
#endif
  return multiply_tile<T>;
}

// Packs a count x depth part of a matrix as [depth][width], zero beyond count; element (i, p) of the part lies at
// data[i * step + p * along].
template <typename T>
void pack(const T* data, int64_t step, int64_t along, int64_t count, int64_t width, int64_t depth, T* __restrict out) {
  if (along == 1 && step != 1) {
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t p = 0; p < depth; ++p) out[p * width + i] = data[i * step + p];
    }
  } else {
    for (int64_t p = 0; p < depth; ++p) {
      for (int64_t i = 0; i < count; ++i) out[p * width + i] = data[i * step + p * along];
    }
  }
  for (int64_t p = 0; p < depth && count < width; ++p) {
    for (int64_t i = count; i < width; ++i) out[p * width + i] = T(0);
  }
}

// Few rows: packing would cost as much as the product. Streams B once, along its contiguous direction.
template <typename T>
void gemm_rows(int64_t m, int64_t n, int64_t k, MatrixRef<T> a, MatrixRef<T> b, T* c, int64_t c_row, bool accumulate) {
  constexpr int64_t kLanes = 16;
  for (int64_t i = 0; i < m; ++i) {
    const T* x = a.data + i * a.row;
    T* __restrict y = c + i * c_row;
    if (!accumulate) std::fill_n(y, n, T(0));
    for (int64_t p = 0; p < k && b.column == 1; ++p) {
      const T value = x[p * a.column];
      const T* __restrict row = b.data + p * b.row;
      for (int64_t j = 0; j < n; ++j) y[j] += value * row[j];
    }
    for (int64_t j = 0; j < n && b.column != 1; ++j) {
      const T* __restrict column = b.data + j * b.column;
      T sums[kLanes] = {};
      int64_t p = 0;
      for (; p + kLanes <= k; p += kLanes) {
        for (int64_t lane = 0; lane < kLanes; ++lane) sums[lane] += x[p + lane] * column[p + lane];
      }
      for (; p < k; ++p) sums[0] += x[p] * column[p];
      T sum = 0;
      for (T part : sums) sum += part;
      y[j] += sum;
    }
  }
}

template <typename T>
void gemm_blocked(int64_t m, int64_t n, int64_t k, MatrixRef<T> a, MatrixRef<T> b, T* c, int64_t c_row,
                  bool accumulate) {
  const TileKernel<T> multiply = tile_kernel<T>();
  alignas(64) T packed_a[kPanel * kDepth];
  alignas(64) T packed_b[kColumns * kDepth];
  alignas(64) T tile[kRows * kColumns];
  for (int64_t p0 = 0; p0 < k; p0 += kDepth) {
    const int64_t depth = std::min(kDepth, k - p0);
    const bool add = accumulate || p0 > 0;
    for (int64_t i0 = 0; i0 < m; i0 += kPanel) {
      const int64_t rows = std::min(kPanel, m - i0);
      for (int64_t i = 0; i < rows; i += kRows) {
        pack(a.data + (i0 + i) * a.row + p0 * a.column, a.row, a.column, std::min(kRows, rows - i), kRows, depth,
             packed_a + i * depth);
      }
      for (int64_t j0 = 0; j0 < n; j0 += kColumns) {
        const int64_t columns = std::min(kColumns, n - j0);
        pack(b.data + p0 * b.row + j0 * b.column, b.column, b.row, columns, kColumns, depth, packed_b);
        for (int64_t i = 0; i < rows; i += kRows) {
          multiply(depth, packed_a + i * depth, packed_b, tile);
          for (int64_t r = 0; r < std::min(kRows, rows - i); ++r) {
            T* out = c + (i0 + i + r) * c_row + j0;
            const T* from = tile + r * kColumns;
            if (add) {
              for (int64_t j = 0; j < columns; ++j) out[j] += from[j];
            } else {
              for (int64_t j = 0; j < columns; ++j) out[j] = from[j];
            }
          }
        }
      }
    }
  }
}

}  // namespace

template <typename T>
void gemm(int64_t m, int64_t n, int64_t k, MatrixRef<T> a, MatrixRef<T> b, T* c, int64_t c_row, bool accumulate) {
  if (m <= 0 || n <= 0) return;
  if (k <= 0) {
    for (int64_t i = 0; i < m && !accumulate; ++i) std::fill_n(c + i * c_row, n, T(0));
    return;
  }
  const bool streams = b.column == 1 || (b.row == 1 && a.column == 1);
  auto run = [&]<typename U>(MatrixRef<U> left, MatrixRef<U> right, U* out) {
    auto kernel = m <= 2 && streams ? gemm_rows<U> : gemm_blocked<U>;
    kernel(m, n, k, left, right, out, c_row, accumulate);
  };
  if constexpr (std::is_integral_v<T>) {
    // Unsigned arithmetic wraps where signed overflow would be undefined.
    using U = std::make_unsigned_t<T>;
    run(MatrixRef<U>{reinterpret_cast<const U*>(a.data), a.row, a.column},
        MatrixRef<U>{reinterpret_cast<const U*>(b.data), b.row, b.column}, reinterpret_cast<U*>(c));
  } else {
    run(a, b, c);
  }
}

template void gemm(int64_t, int64_t, int64_t, MatrixRef<float>, MatrixRef<float>, float*, int64_t, bool);
template void gemm(int64_t, int64_t, int64_t, MatrixRef<double>, MatrixRef<double>, double*, int64_t, bool);
template void gemm(int64_t, int64_t, int64_t, MatrixRef<int32_t>, MatrixRef<int32_t>, int32_t*, int64_t, bool);
template void gemm(int64_t, int64_t, int64_t, MatrixRef<uint32_t>, MatrixRef<uint32_t>, uint32_t*, int64_t, bool);
template void gemm(int64_t, int64_t, int64_t, MatrixRef<int64_t>, MatrixRef<int64_t>, int64_t*, int64_t, bool);
template void gemm(int64_t, int64_t, int64_t, MatrixRef<uint64_t>, MatrixRef<uint64_t>, uint64_t*, int64_t, bool);

}  // namespace deepjit
