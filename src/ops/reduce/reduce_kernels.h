// The inner loops of a reduction, by kind and element type: a contiguous row, or many columns at once.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/visit.h"

namespace deepjit {

// How elements are mapped and combined; the Reduce ops differ beyond that only in how a total is finished.
enum class ReduceKind { SUM, SUM_ABS, SUM_SQUARE, SUM_EXP, PROD, MAX, MIN };

constexpr bool is_extremum(ReduceKind kind) { return kind == ReduceKind::MAX || kind == ReduceKind::MIN; }

// Block: what a short run accumulates in. Total: what blocks add up in. Integers wrap around in 64 bits.
template <ReduceKind K, typename T>
struct ReduceTypes {
  static constexpr bool kInteger = std::is_integral_v<T>;
  using Block = std::conditional_t<
      kInteger, std::conditional_t<is_extremum(K), T, std::conditional_t<K == ReduceKind::SUM_EXP, double, uint64_t>>,
      std::conditional_t<std::is_same_v<T, double>, double, float>>;
  using Total = std::conditional_t<std::is_same_v<Block, float>, double, Block>;
};

template <ReduceKind K, typename A>
constexpr A reduce_identity() {
  using Limits = std::numeric_limits<A>;
  if constexpr (K == ReduceKind::PROD) return A(1);
  if constexpr (K == ReduceKind::MAX) return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
  if constexpr (K == ReduceKind::MIN) return Limits::has_infinity ? Limits::infinity() : Limits::max();
  return A(0);
}

template <ReduceKind K, typename A>
inline A reduce_combine(A a, A b) {
  if constexpr (K == ReduceKind::PROD) return a * b;
  // A NaN on either side stays.
  if constexpr (K == ReduceKind::MAX) return (b > a) | (b != b) ? b : a;
  if constexpr (K == ReduceKind::MIN) return (b < a) | (b != b) ? b : a;
  return a + b;
}

template <ReduceKind K, typename T>
inline typename ReduceTypes<K, T>::Block reduce_map(T value, double shift) {
  using A = typename ReduceTypes<K, T>::Block;
  const auto raw = load_as_compute(value);
  const A x = static_cast<A>(raw);
  if constexpr (K == ReduceKind::SUM_ABS) {
    if constexpr (std::is_floating_point_v<A>) return std::abs(x);
    return raw < 0 ? A(0) - x : x;
  }
  if constexpr (K == ReduceKind::SUM_SQUARE) return x * x;
  if constexpr (K == ReduceKind::SUM_EXP) return std::exp(x - static_cast<A>(shift));
  return x;
}

constexpr int64_t kReduceLanes = 16;
constexpr int64_t kReduceBlock = 512;  // elements or rows between additions to the total

// The larger (or smaller) of two numbers; what a NaN gives is left open, so that one instruction does it.
template <ReduceKind K, typename A>
inline A plain_extremum(A a, A b) {
  if constexpr (K == ReduceKind::MAX) return b > a ? b : a;
  return b < a ? b : a;
}

// The extremum of n contiguous floats, NaN if there is one: looked for aside, to keep the main loop short.
template <ReduceKind K, typename T>
double extremum_row(const T* x, int64_t n) {
  using A = typename ReduceTypes<K, T>::Block;
  A best = reduce_identity<K, A>();
  for (int64_t begin = 0; begin < n; begin += kReduceBlock) {
    const int64_t end = std::min(n, begin + kReduceBlock);
    int32_t has_nan = 0;
    for (int64_t i = begin; i < end; ++i) {
      const A value = static_cast<A>(load_as_compute(x[i]));
      has_nan |= static_cast<int32_t>(value != value);
    }
    if (has_nan != 0) return std::numeric_limits<double>::quiet_NaN();
    std::array<A, kReduceLanes> lane;
    lane.fill(best);
    int64_t i = begin;
    for (; i + kReduceLanes <= end; i += kReduceLanes) {
      for (int64_t j = 0; j < kReduceLanes; ++j) {
        lane[j] = plain_extremum<K>(lane[j], static_cast<A>(load_as_compute(x[i + j])));
      }
    }
    for (int64_t j = 0; i < end; ++i, ++j) {
      lane[j] = plain_extremum<K>(lane[j], static_cast<A>(load_as_compute(x[i])));
    }
    for (A value : lane) best = plain_extremum<K>(best, value);
  }
  return best;
}

// n contiguous elements.
template <ReduceKind K, typename T>
typename ReduceTypes<K, T>::Total reduce_row(const T* x, int64_t n, double shift) {
  using A = typename ReduceTypes<K, T>::Block;
  using W = typename ReduceTypes<K, T>::Total;
  W total = reduce_identity<K, W>();
  if (n < kReduceLanes) {
    for (int64_t i = 0; i < n; ++i) total = reduce_combine<K>(total, static_cast<W>(reduce_map<K>(x[i], shift)));
    return total;
  }
  if constexpr (is_extremum(K) && !std::is_integral_v<T>) return extremum_row<K>(x, n);
  for (int64_t begin = 0; begin < n; begin += kReduceBlock) {
    const int64_t end = std::min(n, begin + kReduceBlock);
    std::array<A, kReduceLanes> lane;
    lane.fill(reduce_identity<K, A>());
    int64_t i = begin;
    for (; i + kReduceLanes <= end; i += kReduceLanes) {
      for (int64_t j = 0; j < kReduceLanes; ++j) {
        lane[j] = reduce_combine<K>(lane[j], reduce_map<K>(x[i + j], shift));
      }
    }
    for (int64_t j = 0; i < end; ++i, ++j) lane[j] = reduce_combine<K>(lane[j], reduce_map<K>(x[i], shift));
    for (int64_t width = kReduceLanes / 2; width > 0; width /= 2) {
      for (int64_t j = 0; j < width; ++j) lane[j] = reduce_combine<K>(lane[j], lane[j + width]);
    }
    total = reduce_combine<K>(total, static_cast<W>(lane[0]));
  }
  return total;
}

constexpr int64_t kReduceColumns = 256;

// Up to kReduceColumns neighbouring columns, fed row by row.
template <ReduceKind K, typename T>
class ColumnReducer {
 public:
  using A = typename ReduceTypes<K, T>::Block;
  using W = typename ReduceTypes<K, T>::Total;

  // `shift` has one element a column; null when the kind needs none.
  void start(int64_t columns, const double* shift) {
    columns_ = columns;
    shift_ = shift;
    rows_ = 0;
    std::fill_n(total_, columns, reduce_identity<K, W>());
    std::fill_n(block_, columns, reduce_identity<K, A>());
  }
  void add(const T* row) {
    for (int64_t i = 0; i < columns_; ++i) {
      block_[i] = reduce_combine<K>(block_[i], reduce_map<K>(row[i], K == ReduceKind::SUM_EXP ? shift_[i] : 0.0));
    }
    if (++rows_ % kRowsPerBlock == 0) flush();
  }
  const W* finish() {
    flush();
    return total_;
  }

 private:
  static constexpr int64_t kRowsPerBlock = 64;
  void flush() {
    for (int64_t i = 0; i < columns_; ++i) {
      total_[i] = reduce_combine<K>(total_[i], static_cast<W>(block_[i]));
      block_[i] = reduce_identity<K, A>();
    }
  }
  alignas(64) A block_[kReduceColumns];
  alignas(64) W total_[kReduceColumns];
  int64_t columns_ = 0;
  int64_t rows_ = 0;
  const double* shift_ = nullptr;
};

}  // namespace deepjit
