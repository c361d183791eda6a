// Stands for the device under generated CUDA text, so that g++ compiles it: what the text uses of CUDA and no more.
//
// The threads of a block are fibres of one CPU thread. A barrier or shuffle lets the others run up to theirs. Blocks
// run one after another. Where CUDA leaves a block's result open, the emulation fails: a barrier that some threads do
// not reach, a shuffle that not all threads of the warp join. Threads run in either order between barriers, so that
// text that relies on an order gives two results. x86-64 only.
#pragma once

#include <math.h>
#include <string.h>
#include <sys/mman.h>

#include <utility>
#include <vector>

#define DEEPJIT_EMULATED 1
#define __global__
#define __device__
#define __shared__ static
#define __forceinline__ inline
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __grid_constant__

struct EmulatedIndex {
  unsigned int x = 0, y = 0, z = 0;
};
static EmulatedIndex threadIdx, blockIdx, blockDim, gridDim;

namespace emulation {

// What the test says of a launch; kernels take addresses of their arguments as a driver does.
struct Launch {
  int blocks, threads;
  long long shared_bytes;
  bool backwards;  // the order of warps and of threads
};

// Saves the callee's registers on the running stack, notes where that is, and goes on where another stack was left.
extern "C" void emulation_switch(void** left, void* taken);
asm(R"(
.text
emulation_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
)");

// POLLING: to be asked again. AT_MEETING: at a barrier of some threads of the block.
enum class State { READY, POLLING, AT_WARP, AT_MEETING, AT_BLOCK, DONE };

constexpr size_t kStack = 64 << 10;
constexpr int kMostThreads = 1024;

struct Fibre {
  State state = State::READY;
  void* at = nullptr;
  int team = 0;    // whose barrier it waits at
  int parity = 0;  // of its shuffles: the next one does not overwrite what a slower thread still reads
  unsigned long long given[2] = {0, 0};
  unsigned int fragments[2][6];  // of a and b, of a product by tensor cores
};

static Fibre fibres[kMostThreads];
static void* scheduler = nullptr;
static char* stacks = nullptr;
static std::vector<float> row_buffers;

// Copies that run in the background are made at once in one order of threads, and as late as the text allows in the
// other.
struct Copy {
  void* to;
  const void* from;
  int bytes, group;
};
static std::vector<Copy> copies[kMostThreads];
static int copy_groups[kMostThreads];
static bool copies_are_late = false;
// Products of groups of warps under way.
struct GroupProduct {
  float* sums;
  const unsigned char *a, *b;
  int kk, columns, group;
  float (*at)(unsigned int word, int which);
};
static std::vector<GroupProduct> group_products[kMostThreads];
static int product_groups[kMostThreads];
static void (*entry)(void*) = nullptr;
static void* entry_argument = nullptr;

static int meeting[2] = {0, 0};  // threads that a barrier of a team is of
static long long happened = 0;   // what may let a thread that polls go on

static void wait(State state) {
  Fibre& fibre = fibres[threadIdx.x];
  fibre.state = state;
  emulation_switch(&fibre.at, scheduler);
}

static void first_steps() {
  entry(entry_argument);
  ++happened;
  wait(State::DONE);
}

static void start(int thread) {
  Fibre& fibre = fibres[thread];
  fibre = Fibre();
  copies[thread].clear();
  copy_groups[thread] = 0;
  group_products[thread].clear();
  product_groups[thread] = 0;
  void** top = reinterpret_cast<void**>(stacks + (static_cast<size_t>(thread) + 1) * kStack);
  *--top = nullptr;  // the stack is then as after a call
  *--top = reinterpret_cast<void*>(&first_steps);
  top -= 6;
  fibre.at = top;
}

static bool all_are(State state, int first, int count) {
  for (int t = first; t < first + count; ++t) {
    if (fibres[t].state != state) return false;
  }
  return true;
}

// Lets a team go whose threads are all at its barrier.
static bool let_team_go(int team, int threads) {
  int met = 0;
  const auto is_there = [&](int t) { return fibres[t].state == State::AT_MEETING && fibres[t].team == team; };
  for (int t = 0; t < threads; ++t) met += is_there(t) ? 1 : 0;
  if (met == 0 || met != meeting[team]) return false;
  for (int t = 0; t < threads; ++t) {
    if (is_there(t)) fibres[t].state = State::READY;
  }
  return true;
}

static void let_go(int first, int count) {
  for (int t = first; t < first + count; ++t) fibres[t].state = State::READY;
}

// Runs a warp as far as it comes: to a barrier of the block, or to its end. Other warps are then far behind it or ahead
// of it, so that text that lacks a barrier gives different results in the two orders.
static void run_warp(int first, bool backwards) {
  for (;;) {
    for (int t = first; t < first + 32; ++t) {
      if (fibres[t].state == State::POLLING) fibres[t].state = State::READY;
    }
    for (int i = 0; i < 32; ++i) {
      const int t = first + (backwards ? 31 - i : i);
      threadIdx.x = static_cast<unsigned int>(t);
      if (fibres[t].state == State::READY) emulation_switch(&scheduler, fibres[t].at);
    }
    if (!all_are(State::AT_WARP, first, 32)) return;
    let_go(first, 32);
  }
}

static bool run_block(const Launch& launch) {
  for (int t = 0; t < launch.threads; ++t) start(t);
  memset(row_buffers.data(), 0xff, row_buffers.size() * sizeof(float));  // NaN
  for (;;) {
    const int warps = launch.threads / 32;
    happened = 0;
    for (int w = 0; w < warps; ++w) run_warp((launch.backwards ? warps - 1 - w : w) * 32, launch.backwards);
    if (all_are(State::DONE, 0, launch.threads)) return true;
    if (all_are(State::AT_BLOCK, 0, launch.threads)) {
      let_go(0, launch.threads);
    } else {
      const bool first = let_team_go(0, launch.threads), second = let_team_go(1, launch.threads);
      if (!first && !second && happened == 0) return false;
    }
  }
}

template <typename... Types, size_t... I>
void call(void (*kernel)(Types...), void** arguments, std::index_sequence<I...>) {
  kernel(*static_cast<Types*>(arguments[I])...);
}

// "" when all blocks came to their end.
template <typename... Types>
const char* run(void (*kernel)(Types...), void** arguments, const Launch& launch) {
  if (launch.threads > kMostThreads || launch.threads % 32 != 0) return "a block of that many threads";
  if (stacks == nullptr) {
    void* memory = mmap(nullptr, kStack * kMostThreads, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return "no memory for stacks";
    stacks = static_cast<char*>(memory);
  }
  struct Job {
    void (*kernel)(Types...);
    void** arguments;
  } job = {kernel, arguments};
  entry = [](void* j) {
    const Job& its = *static_cast<Job*>(j);
    call(its.kernel, its.arguments, std::index_sequence_for<Types...>());
  };
  entry_argument = &job;
  copies_are_late = launch.backwards;
  row_buffers.assign(static_cast<size_t>(launch.shared_bytes) / sizeof(float) + 4, 0.0f);
  blockDim.x = static_cast<unsigned int>(launch.threads);
  gridDim.x = static_cast<unsigned int>(launch.blocks);
  for (int block = 0; block < launch.blocks; ++block) {
    blockIdx.x = static_cast<unsigned int>(block);
    if (!run_block(launch)) return "threads that wait for others forever";
  }
  return "";
}

}  // namespace emulation

// ---- what the text calls --------------------------------------------------------------------------------

static inline void __syncthreads() { emulation::wait(emulation::State::AT_BLOCK); }

template <typename T>
static inline T __shfl_xor_sync(unsigned int mask, T value, int lanes) {
  if (mask != 0xffffffffu) __builtin_trap();
  emulation::Fibre& own = emulation::fibres[threadIdx.x];
  const int parity = own.parity;
  own.parity ^= 1;
  memcpy(&own.given[parity], &value, sizeof(T));
  const unsigned int from = threadIdx.x ^ static_cast<unsigned int>(lanes);
  emulation::wait(emulation::State::AT_WARP);
  memcpy(&value, &emulation::fibres[from].given[parity], sizeof(T));
  return value;
}

// ---- copies into shared memory, and tensor cores

static inline void make_copy(const emulation::Copy& copy) {
  memset(copy.to, 0, 16);
  memcpy(copy.to, copy.from, static_cast<size_t>(copy.bytes));
}
static inline void copy_later(void* to, const void* from, int bytes) {
  if ((reinterpret_cast<unsigned long long>(to) & 15) != 0) __builtin_trap();
  if (bytes > 0 && (reinterpret_cast<unsigned long long>(from) & 15) != 0) __builtin_trap();
  const emulation::Copy copy = {to, from, bytes, emulation::copy_groups[threadIdx.x]};
  if (emulation::copies_are_late)
    emulation::copies[threadIdx.x].push_back(copy);
  else
    make_copy(copy);
}
static inline void copies_end() { ++emulation::copy_groups[threadIdx.x]; }
static inline void copies_left(int groups) {
  auto& own = emulation::copies[threadIdx.x];
  size_t made = 0;
  while (made < own.size() && own[made].group < emulation::copy_groups[threadIdx.x] - groups) make_copy(own[made++]);
  own.erase(own.begin(), own.begin() + static_cast<long>(made));
}

// The address that each lane of the warp gives.
static inline const unsigned short* row_of_lane(const void* own, int lane, int parity, bool first) {
  emulation::Fibre& fibre = emulation::fibres[threadIdx.x];
  if (first) {
    const auto address = reinterpret_cast<unsigned long long>(own);
    if ((address & 15) != 0) __builtin_trap();
    fibre.given[parity] = address;
    fibre.parity ^= 1;
    emulation::wait(emulation::State::AT_WARP);
  }
  return reinterpret_cast<const unsigned short*>(
      emulation::fibres[(threadIdx.x & ~31u) + static_cast<unsigned>(lane)].given[parity]);
}
static inline void load_matrices(unsigned int* to, const void* from) {
  const int lane = static_cast<int>(threadIdx.x & 31), parity = emulation::fibres[threadIdx.x].parity;
  for (int j = 0; j < 4; ++j) memcpy(&to[j], row_of_lane(from, j * 8 + lane / 4, parity, j == 0) + lane % 4 * 2, 4);
}
static inline void load_turned(unsigned int* to, const void* from) {
  const int lane = static_cast<int>(threadIdx.x & 31), parity = emulation::fibres[threadIdx.x].parity;
  for (int j = 0; j < 4; ++j) {
    const unsigned int low = row_of_lane(from, j * 8 + lane % 4 * 2, parity, j == 0)[lane / 4];
    const unsigned int high = row_of_lane(from, j * 8 + lane % 4 * 2 + 1, parity, false)[lane / 4];
    to[j] = low | high << 16;
  }
}

static inline float float_of_half(unsigned short bits);
static inline float half_at(unsigned int word, int which) {
  return float_of_half(static_cast<unsigned short>(word >> (16 * which)));
}
static inline float bfloat_at(unsigned int word, int which) {
  const unsigned int bits = (which != 0 ? word >> 16 : word & 0xffffu) << 16;
  float x;
  memcpy(&x, &bits, sizeof(x));
  return x;
}
static inline float float_at(unsigned int word, int) {
  float x;
  memcpy(&x, &word, sizeof(x));
  return x;
}
// `packed` elements in a register: 2 of 16 bits, 1 of 32.
template <typename At>
static inline void multiply(float* sums, const unsigned int* a, const unsigned int* b, int packed, At at) {
  emulation::Fibre& own = emulation::fibres[threadIdx.x];
  const int parity = own.parity, lane = static_cast<int>(threadIdx.x & 31);
  own.parity ^= 1;
  memcpy(own.fragments[parity], a, 16);
  memcpy(own.fragments[parity] + 4, b, 8);
  emulation::wait(emulation::State::AT_WARP);
  const emulation::Fibre* warp = emulation::fibres + (threadIdx.x & ~31u);
  for (int q = 0; q < 4; ++q) {
    const int row = lane / 4 + q / 2 * 8, column = lane % 4 * 2 + q % 2;
    for (int k = 0; k < 8 * packed; ++k) {
      const int half = k / (4 * packed), place = k % (4 * packed) / packed;
      const unsigned int x = warp[row % 8 * 4 + place].fragments[parity][row / 8 + 2 * half];
      const unsigned int y = warp[column * 4 + place].fragments[parity][4 + half];
      sums[q] += at(x, k % packed) * at(y, k % packed);
    }
  }
}
// Products of groups of warps happen when they are waited for, or at once.
namespace emulation {

// Row r of 128 bytes lies swizzled: its chunks of 16 bytes in the order of their numbers xor r % 8.
static float swizzled(const GroupProduct& p, const unsigned char* rows, int row, int k) {
  const int place = p.kk * 16 + k, chunk = (place / 8) ^ (row & 7);
  unsigned short bits;
  memcpy(&bits, rows + row * 128 + chunk * 16 + place % 8 * 2, 2);
  return p.at(bits, 0);
}

static void make_product(const GroupProduct& p) {
  const int lane = static_cast<int>(threadIdx.x & 31), warp = static_cast<int>(threadIdx.x >> 5 & 3);
  for (int i = 0; i < p.columns / 2; ++i) {
    const int row = warp * 16 + lane / 4 + i / 2 % 2 * 8, column = i / 4 * 8 + lane % 4 * 2 + i % 2;
    for (int k = 0; k < 16; ++k) p.sums[i] += swizzled(p, p.a, row, k) * swizzled(p, p.b, column, k);
  }
}

static void group_multiply(const GroupProduct& p) {
  const auto a = reinterpret_cast<unsigned long long>(p.a), b = reinterpret_cast<unsigned long long>(p.b);
  if ((a & 1023) != 0 || (b & 1023) != 0) __builtin_trap();
  if (copies_are_late)
    group_products[threadIdx.x].push_back(p);
  else
    make_product(p);
}
static inline void group_multiply_f16(float* sums, const unsigned char* a, const unsigned char* b, int kk,
                                      int columns) {
  group_multiply({sums, a, b, kk, columns, product_groups[threadIdx.x], half_at});
}
static inline void group_multiply_bf16(float* sums, const unsigned char* a, const unsigned char* b, int kk,
                                       int columns) {
  group_multiply({sums, a, b, kk, columns, product_groups[threadIdx.x], bfloat_at});
}

}  // namespace emulation

// ---- barriers that count arrivals and bytes, and clusters: one block stands for all, whose other blocks do as it does

struct Barrier {
  int count, pending, phase;
  long long bytes;
};
// As the emulated devices fill it: where rows of 16-bit elements lie, how many, of how many elements, so many bytes
// apart, and how many a copy takes.
struct RowMap {
  unsigned long long at, rows, columns, pitch, box_rows, rest[11];
};
namespace emulation {

struct SharedTile {
  unsigned char* to;
  const unsigned char* from;  // nullptr: rows of the map from (k, m) on
  int bytes;
  Barrier* at;
  RowMap map;
  int k, m;
};
static std::vector<SharedTile> shared_tiles;  // late ones
struct Tell {
  Barrier* at;
  unsigned int thread;
  int group;
};
static std::vector<Tell> tells;  // late ones

static void settle(Barrier* at) {
  ++happened;
  if (at->pending < 0) __builtin_trap();
  if (at->pending > 0 || at->bytes != 0) return;
  at->phase ^= 1;
  at->pending = at->count;
}

static void make_rows(const SharedTile& tile) {
  const RowMap& map = tile.map;
  for (int row = 0; row < static_cast<int>(map.box_rows); ++row) {
    for (int k = 0; k < 64; ++k) {
      unsigned short value = 0;
      const auto m = static_cast<unsigned long long>(tile.m + row),
                 column = static_cast<unsigned long long>(tile.k + k);
      if (m < map.rows && column < map.columns) {
        memcpy(&value, reinterpret_cast<const char*>(map.at) + m * map.pitch + column * 2, 2);
      }
      memcpy(tile.to + row * 128 + ((k / 8) ^ (row & 7)) * 16 + k % 8 * 2, &value, 2);
    }
  }
}

static void make_tile(const SharedTile& tile) {
  if (tile.from == nullptr)
    make_rows(tile);
  else
    memcpy(tile.to, tile.from, static_cast<size_t>(tile.bytes));
  tile.at->bytes -= tile.bytes;
  settle(tile.at);
}

// At once, or when its barrier is waited for.
static void bring(const SharedTile& tile) {
  if (copies_are_late)
    shared_tiles.push_back(tile);
  else
    make_tile(tile);
}

}  // namespace emulation

static inline void barrier_init(Barrier* at, int arrivals) {
  *at = {arrivals, arrivals, 0, 0};
  emulation::shared_tiles.clear();
  emulation::tells.clear();
}
static inline void barrier_expect(Barrier* at, int bytes) {
  at->bytes += bytes;
  --at->pending;
  emulation::settle(at);
}
static inline void copies_left(int groups);
static inline void arrive_with_copies(const emulation::Tell& tell) {
  const unsigned int own = threadIdx.x;
  threadIdx.x = tell.thread;
  copies_left(emulation::copy_groups[tell.thread] - tell.group);
  threadIdx.x = own;
  --tell.at->pending;
  emulation::settle(tell.at);
}
static inline void copies_tell(Barrier* at) {
  const emulation::Tell tell = {at, threadIdx.x, ++emulation::copy_groups[threadIdx.x]};
  if (emulation::copies_are_late)
    emulation::tells.push_back(tell);
  else
    arrive_with_copies(tell);
}
static inline void barrier_wait(Barrier* at, int phase) {
  while (at->phase == phase) {
    for (size_t i = 0; i < emulation::tells.size(); ++i) {
      if (emulation::tells[i].at != at) continue;
      arrive_with_copies(emulation::tells[i]);
      emulation::tells.erase(emulation::tells.begin() + static_cast<long>(i--));
    }
    for (size_t i = 0; i < emulation::shared_tiles.size(); ++i) {
      if (emulation::shared_tiles[i].at != at) continue;
      emulation::make_tile(emulation::shared_tiles[i]);
      emulation::shared_tiles.erase(emulation::shared_tiles.begin() + static_cast<long>(i--));
    }
    if (at->phase == phase) emulation::wait(emulation::State::POLLING);
  }
}
static inline void barriers_made() {}
static inline void cluster_arrive() {}
static inline void cluster_wait() { emulation::wait(emulation::State::AT_BLOCK); }
static inline void team_meets(int team, int threads) {
  emulation::meeting[team] = threads;
  emulation::fibres[threadIdx.x].team = team;
  emulation::wait(emulation::State::AT_MEETING);
}
static inline void barrier_arrive(Barrier* at) {
  --at->pending;
  emulation::settle(at);
}
static inline void __syncwarp() { emulation::wait(emulation::State::AT_WARP); }
static inline void share_tile(unsigned char* to, const unsigned char* from, int bytes, Barrier* at, int rank,
                              int ranks) {
  if (rank < 0 || rank >= ranks || bytes % (16 * ranks) != 0) __builtin_trap();
  if (((reinterpret_cast<unsigned long long>(to) | reinterpret_cast<unsigned long long>(from)) & 15) != 0) {
    __builtin_trap();
  }
  const emulation::SharedTile tile = {to, from, bytes, at, {}, 0, 0};
  emulation::bring(tile);
}
static inline void load_rows(unsigned char* to, const RowMap* map, int k, int m, int rows, Barrier* at) {
  if ((reinterpret_cast<unsigned long long>(to) & 1023) != 0 || rows != static_cast<int>(map->box_rows)) {
    __builtin_trap();
  }
  const emulation::SharedTile tile = {to, nullptr, rows * 128, at, *map, k, m};
  emulation::bring(tile);
}
static inline void tell_cluster(Barrier* at, int lane, int ranks) {
  if (lane >= ranks) return;
  --at->pending;
  emulation::settle(at);
}

static inline void show_to_groups() {}
static inline void groups_begin() {}
static inline void groups_end() { ++emulation::product_groups[threadIdx.x]; }
static inline void groups_left(int groups) {
  auto& own = emulation::group_products[threadIdx.x];
  size_t made = 0;
  while (made < own.size() && own[made].group < emulation::product_groups[threadIdx.x] - groups) {
    emulation::make_product(own[made++]);
  }
  own.erase(own.begin(), own.begin() + static_cast<long>(made));
}
static inline void settled(float) {}

static inline void multiply_halves(float* sums, const unsigned int* a, const unsigned int* b) {
  multiply(sums, a, b, 2, half_at);
}
static inline void multiply_bfloats(float* sums, const unsigned int* a, const unsigned int* b) {
  multiply(sums, a, b, 2, bfloat_at);
}
static inline void multiply_tf32(float* sums, const unsigned int* a, const unsigned int* b) {
  multiply(sums, a, b, 1, float_at);
}
static inline unsigned int tf32_of_float(float x) {
  unsigned int bits;
  memcpy(&bits, &x, sizeof(bits));
  return (bits + 0x1000u) & ~0x1fffu;
}
static inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
static inline float __ldcg(const float* from) { return *from; }
static inline void __threadfence() {}
static inline unsigned int atomicAdd(unsigned int* to, unsigned int value) {
  const unsigned int before = *to;
  *to += value;
  return before;
}

static inline float __int_as_float(int bits) {
  float x;
  memcpy(&x, &bits, sizeof(x));
  return x;
}
static inline int __float_as_int(float x) {
  int bits;
  memcpy(&bits, &x, sizeof(x));
  return bits;
}
static inline double __longlong_as_double(long long bits) {
  double x;
  memcpy(&x, &bits, sizeof(x));
  return x;
}

static inline float float_of_half(unsigned short bits) {
  _Float16 x;
  memcpy(&x, &bits, sizeof(x));
  return static_cast<float>(x);
}
static inline unsigned short half_of_float(float x) {
  const _Float16 narrow = static_cast<_Float16>(x);
  unsigned short bits;
  memcpy(&bits, &narrow, sizeof(bits));
  return bits;
}

static inline float* row_memory() {
  auto address = reinterpret_cast<unsigned long long>(emulation::row_buffers.data());
  return reinterpret_cast<float*>((address + 15) / 16 * 16);
}
static inline long long row_memory_bytes() {
  return (static_cast<long long>(emulation::row_buffers.size()) - 4) * static_cast<long long>(sizeof(float));
}
