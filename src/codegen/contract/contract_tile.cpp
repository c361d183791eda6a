#include <algorithm>
#include <array>
#include <cstdio>

#include "base/error.h"
#include "codegen/contract/contract.h"

namespace deepjit {

namespace {

constexpr std::array<const char*, 4> kMath = {"mma", "tf32mma", "fma", "wgmma"};
constexpr int64_t kMostShared90 = 227 << 10;
constexpr int64_t kBarriers = 512;     // of packed tiles, beside what launches ask for
constexpr int64_t kGroupAlign = 1024;  // of tiles that groups of warps read: their rows are swizzled by address

// Bytes of a row of a shared tile: 16-bit rows are swizzled, those of float32 are padded.
int64_t row_bytes(const ContractSpec& spec, ContractSpec::Form form, int64_t extent, int64_t k) {
  if (spec.type != DType::FLOAT32) return (form == ContractSpec::Form::COLUMNS ? extent : k) * 2;
  return form == ContractSpec::Form::COLUMNS ? (extent + 8) * 4 : (k + 4) * 4;
}

}  // namespace

std::string ContractTile::to_string() const {
  return fmt::format("{}{}x{}x{}w{}x{}s{}k{}{}", kMath[static_cast<size_t>(math)], m, n, k, warps_m, warps_n, stages,
                     split, packed() ? fmt::format("c{}", cluster) : "");
}

ContractTile ContractTile::parse(const std::string& text) {
  for (size_t i = 0; i < kMath.size(); ++i) {
    const std::string prefix = kMath[i];
    if (text.rfind(prefix, 0) != 0) continue;
    ContractTile t;
    t.math = static_cast<ContractMath>(i);
    const int found = std::sscanf(text.c_str() + prefix.size(), "%4dx%4dx%4dw%2dx%2ds%2dk%4dc%2d", &t.m, &t.n, &t.k,
                                  &t.warps_m, &t.warps_n, &t.stages, &t.split, &t.cluster);
    const bool positive = found >= 7 && t.m > 0 && t.n > 0 && t.k > 0 && t.warps_m > 0 && t.warps_n > 0 &&
                          t.stages > 1 && t.split > 0 && t.warps_m * t.warps_n <= 32;
    if (positive && t.to_string() == text) return t;
  }
  throw Error(Code::ENGINE_RANGE, "\"" + text + "\" is no tile of a product");
}

// Two floats of a thread lie in banks of their own beside those of the other rows of half a warp.
int contract_result_pitch(const ContractTile& tile) { return tile.n + (tile.n % 32 == 0 ? 8 : 4); }

int packed_slab(const ContractTile& tile) {
  const int columns = tile.n / tile.warps_n;
  if (columns % 64 == 0 && tile.teams() > 1) return 64;  // wide tiles of one team need the room for their slots
  return columns % 32 == 0 ? 32 : 16;
}

int64_t contract_shared_bytes(const ContractSpec& spec, const ContractTile& tile) {
  const auto bytes = [&](ContractSpec::Form form, int64_t extent) {
    return row_bytes(spec, form, extent, tile.k) * (form == ContractSpec::Form::COLUMNS ? tile.k : extent);
  };
  const int64_t stages = tile.stages * (bytes(spec.a, tile.m) + bytes(spec.b, tile.n));
  if (tile.packed()) {
    const int64_t results = int64_t{tile.teams()} * tile.threads() / 32 * 16 * (packed_slab(tile) + 8) * 4;
    return stages + results + kGroupAlign;
  }
  const int64_t result = int64_t{tile.m} * contract_result_pitch(tile) * 4;
  return std::max(stages, result) + (tile.math == ContractMath::GROUP_16 ? kGroupAlign : 0);
}

namespace {

// Groups of four warps have 64 rows or several times as many, and read 64 places of k, which are 128 bytes.
std::string why_not_groups(const ContractSpec& spec, const ContractTile& tile) {
  using Form = ContractSpec::Form;
  if (spec.type == DType::FLOAT32) return "its arithmetic is for another type";
  if (spec.a == Form::COLUMNS || spec.b == Form::COLUMNS) return "groups of warps read rows";
  const int columns = tile.n / tile.warps_n;
  const bool fits = tile.k == 64 && tile.warps_m % 4 == 0 && tile.m % (16 * tile.warps_m) == 0 &&
                    tile.n % (16 * tile.warps_n) == 0 && columns <= 256 && tile.stages > 2 && tile.threads() <= 512;
  if (!fits || tile.m * tile.n / tile.threads() > 128) return "groups of warps do not fill the tile";
  if (tile.packed()) {
    if (!spec.weights || spec.groups > 1 || spec.batched) return "its second operand is not packed in tiles";
    if (!spec.prologue.empty()) return "a prologue is of threads that copy and multiply";
    if (tile.cluster > 8 || (tile.cluster & (tile.cluster - 1)) != 0) return "no cluster of that many blocks";
  }
  const int64_t most = kMostShared90 - (tile.packed() ? kBarriers : 0);
  return contract_shared_bytes(spec, tile) > most ? "it takes too much shared memory" : "";
}

}  // namespace

std::string why_not_tile(const ContractSpec& spec, const ContractTile& tile) {
  if (tile.math == ContractMath::GROUP_16) return why_not_groups(spec, tile);
  if (tile.packed()) return "its arithmetic reads no packed tiles";
  const bool plain = tile.math == ContractMath::PLAIN_32;
  const bool small = spec.type != DType::FLOAT32;
  if (small != (tile.math == ContractMath::TENSOR_16)) return "its arithmetic is for another type";
  const int step_m = plain ? tile.threads() / 16 : 16 * tile.warps_m;
  const int step_n = plain ? 16 : 16 * tile.warps_n;
  const int step_k = small ? 16 : plain ? 4 : 8;
  if (tile.m % step_m != 0 || tile.n % step_n != 0 || tile.k % step_k != 0) return "warps do not fill the tile";
  const int chunk = spec.chunk();
  for (int64_t side : {tile.m, tile.n, tile.k}) {
    if (side % chunk != 0 || tile.threads() % (side / chunk) != 0) return "threads do not fill its rows";
  }
  if (contract_shared_bytes(spec, tile) > kMostSharedAnywhere) return "it takes too much shared memory";
  return "";
}

}  // namespace deepjit
