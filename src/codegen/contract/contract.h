// Convolutions and matrix products as CUDA text: one skeleton, described by few parts.
//
// A product C[m, n] = sum over k of A[m, k] B[n, k], several of them in a batch, then an epilogue. A prologue works on
// A's elements once they are in shared memory. Operands come in one
// of a few forms; a convolution is a product whose A is an image (its windows are never written out). A block of
// threads computes a tile of C: tiles of A and B go through shared memory, several stages ahead (cp.async), and the
// arithmetic is that of tensor cores or of plain fused multiply-adds, in float32. Few tiles are split along k; the last
// of a tile's blocks to arrive adds the parts up in their order, so a run gives the same bits every time. Sizes that
// are not known at build are arguments, and nothing need be a multiple of anything.
//
// Where B is weights in packed tiles a block computes several tiles one after another, and loads go on meanwhile
// (emit_packed.cpp).
//
// The text is for sm_80 and later (of GROUP_16 for sm_90a alone), and compiles for the CPU too, under the tests'
// emulation.
#pragma once

#include <optional>
#include <string>

#include "codegen/contract/epilogue.h"

namespace deepjit {

enum class ContractMath {
  TENSOR_16,  // float16 or bfloat16 operands
  TENSOR_32,  // float32 operands rounded to tf32
  PLAIN_32,   // float32
  GROUP_16,   // float16 or bfloat16 operands, by groups of four warps that read both from shared memory: sm_90a alone
};

constexpr int64_t kMostSharedAnywhere = 99 << 10;  // bytes of a block, on every architecture from sm_86 on

// How the work lies on threads; its text is the tactic's variant.
struct ContractTile {
  ContractMath math = ContractMath::TENSOR_16;
  int m = 64, n = 64, k = 32;  // of a block
  int warps_m = 2, warps_n = 2;
  int stages = 3;
  int split = 1;  // blocks that share a tile, along k
  // Of GROUP_16: blocks along m that read B's tiles together, one copy of B for all of them. B is then weights, packed
  // in tiles. 0: each block copies its own part of plain rows.
  int cluster = 0;

  bool packed() const { return cluster > 0; }
  int threads() const { return warps_m * warps_n * 32; }  // that compute a tile
  // Where B is packed, other threads load; and two teams of threads take turns where few compute a tile.
  int teams() const { return packed() && threads() == 128 ? 2 : 1; }
  std::string to_string() const;
  // Throws Error(ENGINE_RANGE) for text that is no tile.
  static ContractTile parse(const std::string& text);
  bool operator==(const ContractTile&) const = default;
};

// An image with channels last that is walked in windows: its sizes are arguments, the window is known.
struct ContractImage {
  int64_t channels = 0;      // that a product goes over: of one group
  int64_t all_channels = 0;  // of a pixel
  int64_t kernel[2] = {1, 1}, strides[2] = {1, 1}, dilations[2] = {1, 1}, pads[2] = {0, 0};
  bool transposed = false;  // the windows of a transposed convolution

  bool operator==(const ContractImage&) const = default;
};

struct ContractSpec {
  // ROWS: the elements of a product's k lie together. COLUMNS: those of m (of A) or n (of B) do.
  enum class Form { ROWS, COLUMNS, IMAGE };
  DType type = DType::FLOAT16;  // of A, B and C
  Form a = Form::ROWS;
  Form b = Form::ROWS;
  std::optional<int64_t> n, k;  // where known
  ContractImage image;
  int64_t groups = 1;    // of an image: products side by side along the columns of C
  bool batched = false;  // the batch has operands of its own
  int inputs = 2;        // operands of the step
  bool weights = false;  // B is known at build, and may be packed
  Epilogue epilogue;
  Epilogue prologue;  // of the elements of A, in plain ROWS: columns are k, its operands follow the epilogue's

  // Elements in the 16 bytes that are copied at a time.
  int chunk() const { return type == DType::FLOAT32 ? 4 : 8; }
};

struct ContractText {
  std::string name;
  std::string source;
  int64_t shared_bytes = 0;
  int threads = 0;    // of a block; products
  bool maps = false;  // its last argument is a map of A's rows (device::RowMap)
};

// What launches pass behind the operands' addresses, in this order; then x1, x2 of each operand of the epilogue.
// Also told to whoever fills them in: kernels/nvrtc/contract_data.h.
ContractText emit_contract(const ContractSpec& spec, const ContractTile& tile);

// Why the tile is not one for the spec; empty when it is.
std::string why_not_tile(const ContractSpec& spec, const ContractTile& tile);

int64_t contract_shared_bytes(const ContractSpec& spec, const ContractTile& tile);
int contract_result_pitch(const ContractTile& tile);  // floats from a row of results in shared memory to the next
int packed_slab(const ContractTile& tile);            // columns that a warp turns into rows at once

// Part of cache keys.
std::string contract_emitter_version();

}  // namespace deepjit
