// The matrix product kernel that the references of MatMul, Conv, RNN and Attention share.
#pragma once

#include <cstdint>

namespace deepjit {

// A matrix whose element (i, j) lies at data[i * row + j * column].
template <typename T>
struct MatrixRef {
  const T* data;
  int64_t row;
  int64_t column;
};

// C = A * B (or C += A * B), with A m x k, B k x n and C's rows c_row elements apart. T is float, double,
// int32_t, uint32_t, int64_t or uint64_t; sums run in T. One thread, no allocation.
template <typename T>
void gemm(int64_t m, int64_t n, int64_t k, MatrixRef<T> a, MatrixRef<T> b, T* c, int64_t c_row,
          bool accumulate = false);

}  // namespace deepjit
