// Products whose second operand is weights in packed tiles: some warps load, the others multiply.
//
// The loading warps fill a ring of slots, in the order of the block's tiles and of their steps along k, each slot as
// soon as every block of the cluster has read what was there; a barrier of the slot counts what has come. Rows of A
// that are aligned come by tensor copies, one a step; others, and images, by the copies of all loading threads. So
// loads go on while results are written. A team of warps computes a tile. Where four warps are enough for it there are
// two teams, which take turns: one multiplies while the other works on its results.
#include "codegen/contract/contract_emitter.h"

namespace deepjit {

void ContractEmitter::emit_packed() {
  out_.line("const int block_thread = (int)threadIdx.x, lane = block_thread & 31, block_warp = {};",
            out_.call("warp_number", "block_thread"));
  out_.line("const int tiles_m = (M + {0} - 1) / {0}, tiles_n = (N + {1} - 1) / {1};", tile_.m, tile_.n);
  out_.line("const int steps = (K + {0} - 1) / {0};", tile_.k);
  const int c = tile_.cluster;
  out_.line("const int rank = (int)blockIdx.x % {0}, stride = (int)gridDim.x / {0};", c);
  out_.line("const int places = (tiles_m + {0}) / {1} * tiles_n * {2};", c - 1, c, tile_.split);
  out_.line("const {}* a = in0;", element_);
  out_.line("unsigned char* const memory = {};", out_.call("swizzled_memory", ""));
  out_.call("barrier_wait", "");
  const int teams = tile_.teams();
  if (has_map()) {
    out_.call("load_rows", "");
    out_.line("const bool a_whole = {};", is_whole(a()));
  }
  const std::string loading =
      has_map() ? fmt::format("a_whole ? 1 : {}", loaders() + 1) : std::to_string(loaders() + 1);
  out_.line("__shared__ Barrier full[{0}], empty[{0}], order[2];", tile_.stages);
  out_.open("if (block_thread == 0)");
  out_.line("for (int i = 0; i < {}; ++i) barrier_init(full + i, {}), barrier_init(empty + i, {});", tile_.stages,
            loading, tile_.threads() / 32 * c);
  if (teams > 1) out_.line("for (int i = 0; i < 2; ++i) barrier_init(order + i, {});", tile_.threads() / 32);
  out_.line("barriers_made();");
  out_.close();
  out_.line("cluster_arrive();");
  out_.line("cluster_wait();");
  out_.open("if (block_warp >= {})", teams * tile_.threads() / 32);
  emit_feeder();
  out_.otherwise();
  emit_teams();
  out_.close();
}

// The tile of a cluster's place in the order, and its part of k.
void ContractEmitter::emit_packed_place() {
  const int s = tile_.split, c = tile_.cluster;
  const std::string place = s > 1 ? fmt::format("(place / {})", s) : "place";
  out_.line("const int n0 = {0} % tiles_n * {1}, m0 = ({0} / tiles_n * {2} + rank) * {3};", place, tile_.n, c, tile_.m);
  if (s > 1) {
    out_.line("const int part = place % {0}, first = steps * part / {0}, last = steps * (part + 1) / {0};", s);
  } else {
    out_.line("const int first = 0, last = steps;");
  }
}

void ContractEmitter::emit_feeder() {
  const int bytes = tile_bytes(b()), stage = tile_bytes(a()) + bytes, slots = tile_.stages;
  out_.line("const int loader = block_thread - {};", tile_.teams() * tile_.threads());
  out_.line("int slot = 0, phase = 1, filled = 0;");
  out_.open("for (int place = (int)blockIdx.x / {}; place < places; place += stride)", tile_.cluster);
  emit_packed_place();
  out_.line("const unsigned char* const tiles = (const unsigned char*)in1 + (long long)(n0 / {}) * steps * {};",
            tile_.n, bytes);
  prepare_loads(a());
  out_.open("for (int ahead = first; ahead < last; ++ahead)");
  out_.line("if (filled >= {}) barrier_wait(empty + slot, phase);", slots);
  out_.line("unsigned char* const to_a = memory + slot * {};", stage);
  out_.open("if (loader == 0)");
  if (has_map()) {
    out_.line("barrier_expect(full + slot, a_whole ? {} : {});", stage, bytes);
    out_.line("if (a_whole) load_rows(to_a, &a_map, ahead * {}, m0, {}, full + slot);", tile_.k, tile_.m);
  } else {
    out_.line("barrier_expect(full + slot, {});", bytes);
  }
  out_.line("{};",
            out_.call("share_tile", fmt::format("to_a + {}, tiles + (long long)ahead * {}, {}, full + slot, rank, {}",
                                                tile_bytes(a()), bytes, bytes, tile_.cluster)));
  out_.close();
  if (has_map()) out_.open("if (!a_whole)");
  emit_loads(a());
  // What was stored at once, not copied, is to be seen too.
  if (has_map() || !image_is_whole()) out_.line("{};", out_.call("show_to_groups", ""));
  out_.line("{};", out_.call("copies_tell", "full + slot"));
  if (has_map()) out_.close();
  out_.line("++filled;");
  out_.line("if (++slot == {}) slot = 0, phase ^= 1;", slots);
  out_.close();
  out_.close();
  // The block stays until all that is on its way to it has come.
  out_.open("for (int i = 0; i < {}; ++i)", slots);
  out_.line("if (filled + i >= {}) barrier_wait(empty + slot, phase);", slots);
  out_.line("if (++slot == {}) slot = 0, phase ^= 1;", slots);
  out_.close();
}

void ContractEmitter::emit_teams() {
  const int warps = tile_.threads() / 32, slots = tile_.stages, teams = tile_.teams();
  out_.line("const int team = block_warp / {0}, warp = block_warp % {0}, thread = block_thread % {1};", warps,
            tile_.threads());
  out_.line("int slot = 0, phase = 0, turn = 0{};", teams > 1 ? ", order_phase = team ^ 1" : "");
  out_.open("for (int place = (int)blockIdx.x / {}; place < places; place += stride, ++turn)", tile_.cluster);
  emit_packed_place();
  if (teams > 1) {
    out_.open("if (turn % 2 != team)");
    out_.line("slot += last - first;");
    out_.line("phase ^= slot / {0} & 1, slot %= {0};", slots);
    out_.line("continue;");
    out_.close();
  }
  declare_sums();
  if (teams > 1) out_.line("barrier_wait(order + team, order_phase);\norder_phase ^= 1;");
  out_.line("int slot_before = 0;");
  const auto tell = [&] {
    return out_.call("tell_cluster", fmt::format("empty + slot_before, lane, {}", tile_.cluster));
  };
  out_.open("for (int step = first; step < last; ++step)");
  out_.line("barrier_wait(full + slot, phase);");
  out_.line("{};", out_.call("show_to_groups", ""));
  out_.line("const unsigned char* const at_a = memory + slot * {};", tile_bytes(a()) + tile_bytes(b()));
  out_.line("const unsigned char* const at_b = at_a + {};", tile_bytes(a()));
  emit_products();
  out_.line("if (step > first) {};", tell());
  out_.line("slot_before = slot;");
  out_.line("if (++slot == {}) slot = 0, phase ^= 1;", slots);
  out_.close();
  if (teams > 1) out_.line("if (lane == 0) barrier_arrive(order + (team ^ 1));");
  settle_sums();
  out_.line("{};", tell());
  if (tile_.split > 1) {
    out_.line("const int tile = m0 / {} * tiles_n + n0 / {};", tile_.m, tile_.n);
    out_.line("__shared__ unsigned int before[2];");
    emit_split("before[team]", out_.call("team_meets", fmt::format("team, {}", tile_.threads())), "continue");
  }
  emit_packed_result();
  out_.close();
}

// Each warp turns its sums into rows in its own part of shared memory, some columns at a time. The halves of a chunk
// are swapped in every second row, or of every second four chunks in wide rows: eight lanes then read from different
// banks.
void ContractEmitter::emit_packed_result() {
  const int chunk = spec_.chunk(), slab = packed_slab(tile_), pitch = slab + 8, blocks = warp_n() / 8;
  const int stage = tile_bytes(a()) + tile_bytes(b());
  out_.line("float* const staged = (float*)(memory + {}) + block_warp * {};", tile_.stages * stage, 16 * pitch);
  out_.line("const int batch = 0;");
  declare_columns();
  out_.line("#pragma unroll");
  out_.open("for (int i = 0; i < {}; ++i)", group_rows() / 64);
  out_.line("#pragma unroll");
  out_.open("for (int j = 0; j < {}; j += {})", blocks, slab / 8);
  const int count = slab / chunk / 2;  // chunks of a lane
  for (int u = 0; u < count; ++u) {
    place_chunk(u, fmt::format("(lane + {}) / {}", u * 32, slab / chunk),
                fmt::format("(lane + {}) % {} * {}", u * 32, slab / chunk, chunk), "m0 + warp_m + i * 64",
                "n0 + warp_n + j * 8");
  }
  out_.line("#pragma unroll");
  out_.open("for (int x = 0; x < {}; ++x)", slab / 8);
  const std::string pair = out_.vector_type(DType::FLOAT32, 2);
  const char* store_swapped = slab == 64 ? "x / 4" : "lane / 4 % 2";
  out_.line("const int sum = (i * {} + j + x) * 4;", blocks);
  out_.line("const int at = lane / 4 * {} + x * 8 + (lane % 4 * 2 ^ {} * 4);", pitch, store_swapped);
  out_.line("*({0}*)(staged + at) = {0}{{{{sums[sum], sums[sum + 1]}}}};", pair);
  out_.line("*({0}*)(staged + at + {1}) = {0}{{{{sums[sum + 2], sums[sum + 3]}}}};", pair, 8 * pitch);
  out_.close();
  out_.line("__syncwarp();");
  for (int u = 0; u < count; ++u) {
    finish_chunk(u, fmt::format("staged + row_{0} * {1} + column_{0}", u, pitch),
                 slab == 64 ? fmt::format("column_{} / 32", u) : fmt::format("row_{} % 2", u));
  }
  out_.line("__syncwarp();");
  out_.close();
  out_.close();
}

void ContractEmitter::settle_sums() {
  out_.line("{};", out_.call("groups_left", "0"));
  out_.line("#pragma unroll");
  out_.line("for (int i = 0; i < {}; ++i) {};", tile_.m * tile_.n / tile_.threads(), out_.call("settled", "sums[i]"));
}

}  // namespace deepjit
