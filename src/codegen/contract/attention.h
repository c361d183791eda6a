// Attention as one CUDA kernel: softmax(scale Q K^T + mask) V, scores never in memory.
//
// A block takes one head of one batch item and 16 queries for each of its rows of warps; keys come in tiles, which the
// warps of a row share, and each warp keeps a running maximum and sum. Products are tensor cores', sums float32. The
// warps' parts are merged in their order at the end, so a run gives the same bits every time. K of the next tile is
// copied while this one's scores are made, V while they are used.
#pragma once

#include "codegen/contract/contract.h"

namespace deepjit {

struct AttentionSpec {
  DType type = DType::FLOAT16;      // of Q, K, V and the result
  int64_t head = 64;                // elements of a head; a multiple of 16
  int64_t heads = 1, kv_heads = 1;  // several heads of Q may share one of K and V
  DType mask = DType::UNDEFINED;    // added to the scores; BOOL: where to look
  bool mask_by_query = true;        // false: it is the same for every query
  bool causal = false;
  double scale = 1;
  int inputs = 3;
};

// How the work lies on threads; its text is the tactic's variant.
struct AttentionTile {
  int warps_q = 4, warps_k = 1;
  int keys = 64;  // of a warp at a time

  int threads() const { return warps_q * warps_k * 32; }
  int queries() const { return warps_q * 16; }
  std::string to_string() const;
  static AttentionTile parse(const std::string& text);  // ENGINE_RANGE
};

int64_t attention_shared_bytes(const AttentionSpec& spec, const AttentionTile& tile);
std::string why_not_tile(const AttentionSpec& spec, const AttentionTile& tile);

// The numbers behind the addresses, in order: sizes, then strides in elements of batch, head and row (of the mask of
// batch, head, query and key), then where Q, K and V start.
const std::vector<std::string>& attention_numbers();
ContractText emit_attention(const AttentionSpec& spec, const AttentionTile& tile);

}  // namespace deepjit
