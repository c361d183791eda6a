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

// Said so that the compiler sees that it is the same in all lanes.
constexpr const char* kWarpNumber = R"(
static __device__ __forceinline__ int warp_number(int thread) {
#ifdef DEEPJIT_EMULATED
  return thread >> 5;
#else
  return __shfl_sync(0xffffffffu, thread >> 5, 0);
#endif
}
)";

// Barriers in shared memory that count arrivals and bytes. Their phases alternate; a wait names the one that it waits
// for the end of. Arrivals at other blocks of the cluster
// publish nothing: what a warp did before is over, and nothing that it wrote is read there.
constexpr const char* kBarrier = R"(
#ifndef DEEPJIT_EMULATED
struct Barrier {
  unsigned long long state;
};
static __device__ __forceinline__ unsigned int shared_place(const void* at) {
  return (unsigned int)__cvta_generic_to_shared(at);
}
static __device__ __forceinline__ void barrier_init(Barrier* at, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(shared_place(at)), "r"(arrivals) : "memory");
}
static __device__ __forceinline__ void barrier_expect(Barrier* at, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(shared_place(at)), "r"(bytes) : "memory");
}
static __device__ __forceinline__ void barrier_wait(Barrier* at, int phase) {
  unsigned int done;
  do {
    asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
                 : "=r"(done) : "r"(shared_place(at)), "r"(phase) : "memory");
  } while (done == 0);
}
#define barriers_made() asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory")
#define cluster_arrive() asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory")
#define cluster_wait() asm volatile("barrier.cluster.wait;" ::: "memory")
#define team_meets(team, n) asm volatile("bar.sync %0, %1;" :: "r"(1 + (team)), "n"(n) : "memory")
static __device__ __forceinline__ void barrier_arrive(Barrier* at) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(shared_place(at)) : "memory");
}
#endif
)";

// A tile that all `ranks` blocks of a cluster read at one place: block `rank` copies its part of it to all. Each of
// their barriers gets the bytes of the whole.
constexpr const char* kShareTile = R"(
#ifndef DEEPJIT_EMULATED
static __device__ __forceinline__ void share_tile(unsigned char* to, const unsigned char* from, int bytes, Barrier* at,
                                                  int rank, int ranks) {
  const int part = bytes / ranks;
  to += rank * part;
  from += rank * part;
  if (ranks == 1) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 :: "r"(shared_place(to)), "l"(from), "r"(part), "r"(shared_place(at)) : "memory");
  } else {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
                 "[%0], [%1], %2, [%3], %4;"
                 :: "r"(shared_place(to)), "l"(from), "r"(part), "r"(shared_place(at)),
                    "h"((unsigned short)((1 << ranks) - 1)) : "memory");
  }
}
#endif
)";

// Rows of 64 elements, from (k, m) of what the map is of, in the 128-byte swizzle; zeros beyond its ends.
constexpr const char* kLoadRows = R"(
#ifndef DEEPJIT_EMULATED
struct __align__(64) RowMap {
  unsigned long long words[16];
};
static __device__ __forceinline__ void load_rows(unsigned char* to, const RowMap* map, int k, int m, int rows,
                                                 Barrier* at) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
               "[%0], [%1, {%3, %4}], [%2];"
               :: "r"(shared_place(to)), "l"(map), "r"(shared_place(at)), "r"(k), "r"(m) : "memory");
}
#endif
)";

// Arrives when what this thread has copied in the background so far is there.
constexpr const char* kCopiesTell = R"(
#ifndef DEEPJIT_EMULATED
static __device__ __forceinline__ void copies_tell(Barrier* at) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" :: "r"(shared_place(at)) : "memory");
}
#endif
)";

// The warp is done with what the barrier guards: each block of the cluster hears it.
constexpr const char* kTellCluster = R"(
#ifndef DEEPJIT_EMULATED
static __device__ __forceinline__ void tell_cluster(Barrier* at, int lane, int ranks) {
  if (lane < ranks) {
    asm volatile("{.reg .b32 there; mapa.shared::cluster.u32 there, %0, %1; "
                 "mbarrier.arrive.shared::cluster.b64 _, [there];}"
                 :: "r"(shared_place(at)), "r"(lane) : "memory");
  }
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
      {"barrier_init", kBarrier},
      {"barrier_expect", kBarrier},
      {"barrier_wait", kBarrier},
      {"barriers_made", kBarrier},
      {"cluster_arrive", kBarrier},
      {"cluster_wait", kBarrier},
      {"barrier_arrive", kBarrier},
      {"team_meets", kBarrier},
      {"warp_number", kWarpNumber},
      {"share_tile", kShareTile},
      {"copies_tell", kCopiesTell},
      {"load_rows", kLoadRows},
      {"tell_cluster", kTellCluster},
  };
  if (const auto found = texts.find(name); found != texts.end()) return found->second;
  char type[8] = {};
  int columns = 0;
  if (std::sscanf(name.c_str(), "group_multiply_%7[a-z0-9]_%d", type, &columns) != 2) return "";
  return multiply_text(type, columns);
}

}  // namespace deepjit
