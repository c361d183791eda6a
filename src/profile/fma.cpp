#include "profile/fma.h"

#include <immintrin.h>

#include "base/cpu.h"

namespace deepjit::profile {

namespace {

// Enough independent sums to fill two pipes of four to five cycles.
constexpr int kSums = 10;

__attribute__((target("avx512f"))) double fma_512(int rounds, float* sink) {
  const __m512 a = _mm512_set1_ps(0.999f), b = _mm512_set1_ps(1e-3f);
  __m512 sum[kSums];
  for (int i = 0; i < kSums; ++i) sum[i] = _mm512_set1_ps(static_cast<float>(i));
  for (int r = 0; r < rounds; ++r) {
#pragma GCC unroll 10
    for (int i = 0; i < kSums; ++i) sum[i] = _mm512_fmadd_ps(sum[i], a, b);
  }
  for (int i = 1; i < kSums; ++i) sum[0] = _mm512_add_ps(sum[0], sum[i]);
  _mm512_storeu_ps(sink, sum[0]);
  return 2.0 * 16 * kSums * rounds;
}

__attribute__((target("avx2,fma"))) double fma_256(int rounds, float* sink) {
  const __m256 a = _mm256_set1_ps(0.999f), b = _mm256_set1_ps(1e-3f);
  __m256 sum[kSums];
  for (int i = 0; i < kSums; ++i) sum[i] = _mm256_set1_ps(static_cast<float>(i));
  for (int r = 0; r < rounds; ++r) {
#pragma GCC unroll 10
    for (int i = 0; i < kSums; ++i) sum[i] = _mm256_fmadd_ps(sum[i], a, b);
  }
  for (int i = 1; i < kSums; ++i) sum[0] = _mm256_add_ps(sum[0], sum[i]);
  _mm256_storeu_ps(sink, sum[0]);
  return 2.0 * 8 * kSums * rounds;
}

double multiply_and_add_128(int rounds, float* sink) {
  const __m128 a = _mm_set1_ps(0.999f), b = _mm_set1_ps(1e-3f);
  __m128 sum[kSums];
  for (int i = 0; i < kSums; ++i) sum[i] = _mm_set1_ps(static_cast<float>(i));
  for (int r = 0; r < rounds; ++r) {
#pragma GCC unroll 10
    for (int i = 0; i < kSums; ++i) sum[i] = _mm_add_ps(_mm_mul_ps(sum[i], a), b);
  }
  for (int i = 1; i < kSums; ++i) sum[0] = _mm_add_ps(sum[0], sum[i]);
  _mm_storeu_ps(sink, sum[0]);
  return 2.0 * 4 * kSums * rounds;
}

}  // namespace

double run_fma(int rounds, float* sink) {
  if (cpu_isa() == "avx512") return fma_512(rounds, sink);
  if (cpu_isa() == "avx2") return fma_256(rounds, sink);
  return multiply_and_add_128(rounds, sink);
}

}  // namespace deepjit::profile
