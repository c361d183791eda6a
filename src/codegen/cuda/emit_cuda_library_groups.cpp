// The part of the device library for products by groups of four warps (wgmma, sm_90a): both operands are rows of 128
// bytes in shared memory, in the 128-byte swizzle, from addresses that are multiples of 1024. They are read in the
// background; sums belong to them until they are waited for.
#include <fmt/format.h>

#include <cstdio>
#include <map>

#include "codegen/cuda/emit_cuda_writer.h"

namespace deepjit {

namespace {

constexpr const char* kSwizzledMemory = R"(
static __device__ __forceinline__ unsigned char* swizzled_memory() {
  unsigned char* const memory = (unsigned char*)row_memory();
#ifdef DEEPJIT_EMULATED
  const unsigned int at = (unsigned int)(unsigned long long)memory;
#else
  const unsigned int at = (unsigned int)__cvta_generic_to_shared(memory);
#endif
  return memory + (1024u - at % 1024u) % 1024u;
}
)";

// What this thread wrote to shared memory, products may read behind the next barrier.
constexpr const char* kShowToGroups = R"(
#ifndef DEEPJIT_EMULATED
#define show_to_groups() asm volatile("fence.proxy.async.shared::cta;" ::: "memory")
#endif
)";
constexpr const char* kGroups = R"(
#ifndef DEEPJIT_EMULATED
#define groups_begin() asm volatile("wgmma.fence.sync.aligned;" ::: "memory")
#define groups_end() asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory")
#define groups_left(n) asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(n) : "memory")
#define settled(x) asm volatile("" : "+f"(x) :: "memory")
#endif
)";

// A descriptor: the address, and 1024 bytes from eight rows to the next, 128-byte swizzle.
constexpr const char* kGroupPlace = R"(
#ifndef DEEPJIT_EMULATED
static __device__ __forceinline__ unsigned int group_place(const unsigned char* rows, int kk) {
  return 0x10000u | ((((unsigned int)__cvta_generic_to_shared(rows) & 0x3ffffu) >> 4) + 2u * kk);
}
#endif
)";

std::string multiply_text(const std::string& type, int columns) {
  std::string sums, operands;
  const int count = columns / 2;
  for (int i = 0; i < count; ++i) {
    sums += fmt::format("{}%{}", i == 0 ? "" : ", ", i);
    operands += fmt::format("{}\"+f\"(sums[{}])", i == 0 ? "" : ", ", i);
  }
  return fmt::format(R"(
#ifdef DEEPJIT_EMULATED
#define group_multiply_{0}_{1}(sums, a, b, kk) emulation::group_multiply_{0}(sums, a, b, kk, {1})
#else
static __device__ __forceinline__ void group_multiply_{0}_{1}(float* sums, const unsigned char* a,
                                                             const unsigned char* b, int kk) {{
  asm volatile("{{.reg .pred p; .reg .b64 da, db; mov.b64 da, {{%{2}, %{4}}}; mov.b64 db, {{%{3}, %{4}}}; "
               "setp.ne.b32 p, %{5}, 0; wgmma.mma_async.sync.aligned.m64n{1}k16.f32.{0}.{0} {{{6}}}, da, db, p, 1, 1, 0, 0;}}"
               : {7}
               : "r"(group_place(a, kk)), "r"(group_place(b, kk)), "r"(0x40000040u), "r"(1));
}}
#endif
)",
                     type, columns, count, count + 1, count + 2, count + 3, sums, operands);
}

}  // namespace

std::string group_library_text(const std::string& name) {
  static const std::map<std::string, const char*> texts = {
      {"swizzled_memory", kSwizzledMemory},
      {"show_to_groups", kShowToGroups},
      {"groups_begin", kGroups},
      {"groups_end", kGroups},
      {"groups_left", kGroups},
      {"settled", kGroups},
      {"group_place", kGroupPlace},
  };
  if (const auto found = texts.find(name); found != texts.end()) return found->second;
  char type[8] = {};
  int columns = 0;
  if (std::sscanf(name.c_str(), "group_multiply_%7[a-z0-9]_%d", type, &columns) != 2) return "";
  return multiply_text(type, columns);
}

}  // namespace deepjit
