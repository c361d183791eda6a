#include "ops/gemm.h"

#include <algorithm>
#include <type_traits>

// The kernel is compiled for several instruction sets; the loader picks one.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define DEEPJIT_CLONES __attribute__((target_clones("arch=haswell", "arch=skylake-avx512", "default")))
#else
#define DEEPJIT_CLONES
#endif

namespace deepjit {

namespace {

constexpr int64_t kRows = 4;      // rows of C in one register tile
constexpr int64_t kColumns = 16;  // columns of C in one register tile
constexpr int64_t kDepth = 256;   // k per block: one packed panel of B stays in the first-level cache
constexpr int64_t kPanel = 64;    // rows of A packed at once

#define DEEPJIT_INLINE inline __attribute__((always_inline))

// a is packed [k][kRows], b is packed [k][kColumns]; tile += a^T b.
template <typename T>
DEEPJIT_INLINE void multiply_tile(int64_t depth, const T* __restrict a, const T* __restrict b, T* __restrict tile) {
  typedef T Vector __attribute__((vector_size(kColumns / 2 * sizeof(T)), aligned(sizeof(T)), may_alias));
  Vector sums[kRows][2] = {};
  for (int64_t p = 0; p < depth; ++p) {
    const Vector b0 = *reinterpret_cast<const Vector*>(b + p * kColumns);
    const Vector b1 = *reinterpret_cast<const Vector*>(b + p * kColumns + kColumns / 2);
    for (int64_t i = 0; i < kRows; ++i) {
      const T value = a[p * kRows + i];
      sums[i][0] += value * b0;
      sums[i][1] += value * b1;
    }
  }
  for (int64_t i = 0; i < kRows; ++i) {
    for (int64_t j = 0; j < kColumns / 2; ++j) {
      tile[i * kColumns + j] = sums[i][0][j];
      tile[i * kColumns + kColumns / 2 + j] = sums[i][1][j];
    }
  }
}

// Packs a `count` x depth part of a matrix as [depth][width], zero beyond count. element(i, p) = data[i*step +
// p*along].
template <typename T>
DEEPJIT_INLINE void pack(const T* data, int64_t step, int64_t along, int64_t count, int64_t width, int64_t depth,
                         T* __restrict out) {
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

template <typename T>
DEEPJIT_INLINE void gemm_blocked(int64_t m, int64_t n, int64_t k, MatrixRef<T> a, MatrixRef<T> b, T* c, int64_t c_row,
                                 bool accumulate) {
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
          multiply_tile(depth, packed_a + i * depth, packed_b, tile);
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

DEEPJIT_CLONES void gemm_run(int64_t m, int64_t n, int64_t k, MatrixRef<float> a, MatrixRef<float> b, float* c,
                             int64_t c_row, bool accumulate) {
  gemm_blocked<float>(m, n, k, a, b, c, c_row, accumulate);
}
DEEPJIT_CLONES void gemm_run(int64_t m, int64_t n, int64_t k, MatrixRef<double> a, MatrixRef<double> b, double* c,
                             int64_t c_row, bool accumulate) {
  gemm_blocked<double>(m, n, k, a, b, c, c_row, accumulate);
}
void gemm_run(int64_t m, int64_t n, int64_t k, MatrixRef<uint32_t> a, MatrixRef<uint32_t> b, uint32_t* c, int64_t c_row,
              bool accumulate) {
  gemm_blocked<uint32_t>(m, n, k, a, b, c, c_row, accumulate);
}
void gemm_run(int64_t m, int64_t n, int64_t k, MatrixRef<uint64_t> a, MatrixRef<uint64_t> b, uint64_t* c, int64_t c_row,
              bool accumulate) {
  gemm_blocked<uint64_t>(m, n, k, a, b, c, c_row, accumulate);
}

}  // namespace

template <typename T>
void gemm(int64_t m, int64_t n, int64_t k, MatrixRef<T> a, MatrixRef<T> b, T* c, int64_t c_row, bool accumulate) {
  if (m <= 0 || n <= 0) return;
  if (k <= 0) {
    for (int64_t i = 0; i < m && !accumulate; ++i) std::fill_n(c + i * c_row, n, T(0));
    return;
  }
  if constexpr (std::is_integral_v<T>) {
    // Unsigned arithmetic wraps where signed overflow would be undefined.
    using U = std::make_unsigned_t<T>;
    gemm_run(m, n, k, MatrixRef<U>{reinterpret_cast<const U*>(a.data), a.row, a.column},
             MatrixRef<U>{reinterpret_cast<const U*>(b.data), b.row, b.column}, reinterpret_cast<U*>(c), c_row,
             accumulate);
  } else {
    gemm_run(m, n, k, a, b, c, c_row, accumulate);
  }
}

template void gemm(int64_t, int64_t, int64_t, MatrixRef<float>, MatrixRef<float>, float*, int64_t, bool);
template void gemm(int64_t, int64_t, int64_t, MatrixRef<double>, MatrixRef<double>, double*, int64_t, bool);
template void gemm(int64_t, int64_t, int64_t, MatrixRef<int32_t>, MatrixRef<int32_t>, int32_t*, int64_t, bool);
template void gemm(int64_t, int64_t, int64_t, MatrixRef<uint32_t>, MatrixRef<uint32_t>, uint32_t*, int64_t, bool);
template void gemm(int64_t, int64_t, int64_t, MatrixRef<int64_t>, MatrixRef<int64_t>, int64_t*, int64_t, bool);
template void gemm(int64_t, int64_t, int64_t, MatrixRef<uint64_t>, MatrixRef<uint64_t>, uint64_t*, int64_t, bool);

}  // namespace deepjit
