// The part of the device library that products use. `row_memory` is the block's shared memory.
#include <map>

#include "codegen/cuda/emit_cuda_writer.h"

namespace deepjit {

namespace {

constexpr const char* kChunk = R"(
struct __align__(16) Chunk16 {
  unsigned int words[4];
};
)";

// The first `bytes` of an aligned chunk, and zeros, in the background.
constexpr const char* kCopyLater = R"(
#ifndef DEEPJIT_EMULATED
static __device__ __forceinline__ void copy_later(void* to, const void* from, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :: "r"((unsigned int)__cvta_generic_to_shared(to)), "l"(from), "r"(bytes) : "memory");
}
#endif
)";

// The same of a whole chunk, or none of it: an address for every size costs more than the copy.
constexpr const char* kCopyOrZero = R"(
static __device__ __forceinline__ void copy_or_zero(void* to, const void* from, bool there) {
#ifdef DEEPJIT_EMULATED
  copy_later(to, from, there ? 16 : 0);
#else
  asm volatile("{.reg .pred none; setp.eq.u32 none, %2, 0; cp.async.cg.shared.global [%0], [%1], 16, none;}"
               :: "r"((unsigned int)__cvta_generic_to_shared(to)), "l"(from), "r"((unsigned int)there) : "memory");
#endif
}
)";

// The first `valid` elements of a chunk, and zeros: at once and in the background where the chunk is aligned.
constexpr const char* kCopyChunk16 = R"(
static __device__ __forceinline__ void copy_chunk_16(void* to, const unsigned short* from, int valid, bool whole) {
  if (whole) return copy_later(to, from, valid * 2);
  unsigned int words[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const unsigned int low = 2 * i < valid ? from[2 * i] : 0, high = 2 * i + 1 < valid ? from[2 * i + 1] : 0;
    words[i] = low | high << 16;
  }
  *(Chunk16*)to = *(const Chunk16*)words;
}
)";
constexpr const char* kCopyChunk32 = R"(
static __device__ __forceinline__ void copy_chunk_32(void* to, const float* from, int valid, bool whole) {
  if (whole) return copy_later(to, from, valid * 4);
  float floats[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) floats[i] = i < valid ? from[i] : 0.0f;
  *(Chunk16*)to = *(const Chunk16*)floats;
}
)";
constexpr const char* kCopies = R"(
#ifndef DEEPJIT_EMULATED
#define copies_end() asm volatile("cp.async.commit_group;" ::: "memory")
#define copies_left(n) asm volatile("cp.async.wait_group %0;" :: "n"(n) : "memory")
#endif
)";

// The two halves of a register, converted without taking it apart.
constexpr const char* kFloatsOfHalves = R"(
static __device__ __forceinline__ void floats_of_halves(unsigned int x, float* to) {
#ifdef DEEPJIT_EMULATED
  to[0] = float_of_half((unsigned short)x);
  to[1] = float_of_half((unsigned short)(x >> 16));
#else
  asm("{.reg .b16 low, high; mov.b32 {low, high}, %2; cvt.f32.f16 %0, low; cvt.f32.f16 %1, high;}"
      : "=f"(to[0]), "=f"(to[1]) : "r"(x));
#endif
}
)";

// Two floats rounded to 16 bits, the first in the low half.
constexpr const char* kPackHalves = R"(
static __device__ __forceinline__ unsigned int pack_halves(float low, float high) {
#ifdef DEEPJIT_EMULATED
  return (unsigned int)half_of_float(low) | (unsigned int)half_of_float(high) << 16;
#else
  unsigned int y;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
  return y;
#endif
}
)";
constexpr const char* kPackBfloats = R"(
static __device__ __forceinline__ unsigned int pack_bfloats(float low, float high) {
#ifdef DEEPJIT_EMULATED
  return (unsigned int)bfloat16_of_float(low) | (unsigned int)bfloat16_of_float(high) << 16;
#else
  unsigned int y;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
  return y;
#endif
}
)";

// Four 8 x 8 tiles of 16-bit elements: lane l gives the address of row l % 8 of tile l / 8, and gets of each tile two
// neighbours in row l / 4 (of a turned one: in column l / 4).
constexpr const char* kLoadMatrices = R"(
#ifndef DEEPJIT_EMULATED
static __device__ __forceinline__ void load_matrices(unsigned int* to, const void* from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"((unsigned int)__cvta_generic_to_shared(from)) : "memory");
}
#endif
)";
constexpr const char* kLoadTurned = R"(
#ifndef DEEPJIT_EMULATED
static __device__ __forceinline__ void load_turned(unsigned int* to, const void* from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"((unsigned int)__cvta_generic_to_shared(from)) : "memory");
}
#endif
)";

// sums += a b over 16 (of floats 8) places of k.
constexpr const char* kMultiplyHalves = R"(
#ifndef DEEPJIT_EMULATED
static __device__ __forceinline__ void multiply_halves(float* sums, const unsigned int* a, const unsigned int* b) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
               "{%0, %1, %2, %3};"
               : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#endif
)";
constexpr const char* kMultiplyBfloats = R"(
#ifndef DEEPJIT_EMULATED
static __device__ __forceinline__ void multiply_bfloats(float* sums, const unsigned int* a, const unsigned int* b) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
               "{%0, %1, %2, %3};"
               : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#endif
)";
constexpr const char* kMultiplyTf32 = R"(
#ifndef DEEPJIT_EMULATED
static __device__ __forceinline__ void multiply_tf32(float* sums, const unsigned int* a, const unsigned int* b) {
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
               "{%0, %1, %2, %3};"
               : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#endif
)";
constexpr const char* kTf32OfFloat = R"(
#ifndef DEEPJIT_EMULATED
static __device__ __forceinline__ unsigned int tf32_of_float(float x) {
  unsigned int y;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(y) : "f"(x));
  return y;
}
#endif
)";

// Within 2 units in the last place.
constexpr const char* kPowerOfTwo = R"(
static __device__ __forceinline__ float power_of_two(float x) {
#ifdef DEEPJIT_EMULATED
  return exp2f(x);
#else
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#endif
}
)";

// 1 - 2 / (1 + 2^q), q an odd polynomial near log2((1 + erf) / (1 - erf)), fitted over |x| < 4 by least squares with
// weights that even out erf's error: within 3e-7, which 16 bits do not see.
constexpr const char* kNearErf = R"(
static __device__ __forceinline__ float near_erf(float x) {
  const float t = x * x;
  float q = __fmaf_rn(4.58662471e-07f, t, -1.72710564e-05f);
  q = __fmaf_rn(q, t, 2.58855834e-04f);
  q = __fmaf_rn(q, t, -1.80544512e-03f);
  q = __fmaf_rn(q, t, -5.32018800e-04f);
  q = __fmaf_rn(q, t, 2.96518501e-01f);
  q = __fmaf_rn(q, t, 3.25581561f);
  return __fmaf_rn(-2.0f, near_reciprocal(1.0f + power_of_two(q * x)), 1.0f);
}
)";

// x / (1 + 2^-q): the same with q of x / sqrt(2). Where x is below -5.6 the result is below 1e-7, and right to that.
constexpr const char* kNearGelu = R"(
static __device__ __forceinline__ float near_gelu(float x) {
  const float t = x * x;
  float q = __fmaf_rn(-5.06755224e-09f, t, 3.81640034e-07f);
  q = __fmaf_rn(q, t, -1.14399197e-05f);
  q = __fmaf_rn(q, t, 0.000159580311f);
  q = __fmaf_rn(q, t, 9.40485253e-05f);
  q = __fmaf_rn(q, t, -0.104835121f);
  q = __fmaf_rn(q, t, -2.3022093f);
  return x * near_reciprocal(1.0f + power_of_two(q * x));
}
)";

}  // namespace

const char* product_library_text(const std::string& name) {
  static const std::map<std::string, const char*> texts = {
      {"Chunk16", kChunk},
      {"floats_of_halves", kFloatsOfHalves},
      {"pack_halves", kPackHalves},
      {"pack_bfloats", kPackBfloats},
      {"copy_later", kCopyLater},
      {"copy_or_zero", kCopyOrZero},
      {"copy_chunk_16", kCopyChunk16},
      {"copy_chunk_32", kCopyChunk32},
      {"copies_end", kCopies},
      {"copies_left", kCopies},
      {"load_matrices", kLoadMatrices},
      {"load_turned", kLoadTurned},
      {"multiply_halves", kMultiplyHalves},
      {"multiply_bfloats", kMultiplyBfloats},
      {"multiply_tf32", kMultiplyTf32},
      {"tf32_of_float", kTf32OfFloat},
      {"power_of_two", kPowerOfTwo},
      {"near_erf", kNearErf},
      {"near_gelu", kNearGelu},
  };
  const auto found = texts.find(name);
  return found == texts.end() ? nullptr : found->second;
}

}  // namespace deepjit
