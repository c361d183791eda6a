// The parts of a contraction's text: frame and result (emit_contract.cpp), how tiles are loaded (emit_loads.cpp), what
// is done with them (emit_products.cpp); weights in packed tiles (emit_packed.cpp).
//
// Names in the text: m, n, k places of the product; a, b its operands; `memory` the shared tiles; `sums` the thread's
// results.
#pragma once

#include <string>
#include <vector>

#include "codegen/contract/contract.h"

namespace deepjit {

// The numbers that every kernel takes, in order.
const std::vector<std::string>& contract_numbers();

class ContractEmitter {
 public:
  ContractEmitter(const ContractSpec& spec, const ContractTile& tile);
  ContractText run(const std::string& name);

 private:
  using Form = ContractSpec::Form;
  struct Operand {
    char name;  // 'a' or 'b'
    Form form;
    int extent;         // of its tile along m or n
    const char* size;   // M or N
    const char* start;  // m0 or n0
  };
  Operand a() const { return {'a', spec_.a, tile_.m, "M", "m0"}; }
  Operand b() const { return {'b', spec_.b, tile_.n, "N", "n0"}; }

  void emit_arguments(const std::string& name);
  void emit_place();
  void emit_loop();
  void settle_sums();
  void emit_split(const std::string& before, const std::string& meet, const std::string& leave);
  void emit_result();
  void declare_columns();
  int chunks_at_once() const;
  void place_chunk(int u, const std::string& row, const std::string& column, const std::string& m,
                   const std::string& n);
  void finish_chunk(int u, const std::string& from, const std::string& swapped);
  std::vector<EpilogueOperand> operands() const;  // of epilogue and prologue, as their extents are numbered
  void emit_operand(size_t i, const std::string& row, const std::string& column, const std::string& columns,
                    const std::string& suffix);
  std::string whole_columns() const;
  std::string vector_align(DType type) const;

  // Tiles in shared memory: rows of chunks.
  int rows_of(const Operand& o) const;
  int chunks_of(const Operand& o) const;  // of a row
  int pitch_of(const Operand& o) const;
  int tile_bytes(const Operand& o) const;
  std::string chunk_place(const Operand& o, const std::string& row, const std::string& chunk) const;

  // Of packed weights.
  void emit_packed();
  void emit_packed_place();
  void emit_feeder();
  void emit_teams();
  void emit_packed_result();

  // Loads.
  // The threads that copy.
  int loaders() const { return !tile_.packed() ? tile_.threads() : has_map() ? 32 : 128; }
  // A's rows come by tensor copies, where they are aligned.
  bool has_map() const { return tile_.packed() && spec_.a == Form::ROWS; }
  int block_threads() const { return tile_.packed() ? tile_.teams() * tile_.threads() + loaders() : tile_.threads(); }
  int passes_of(const Operand& o) const;
  int rows_a_pass(const Operand& o) const;
  void prepare_loads(const Operand& o);
  void prepare_image(const Operand& o);
  void emit_loads(const Operand& o);
  void copy_chunks(const Operand& o, const std::string& row, const std::string& chunk, const std::string& from,
                   const std::string& valid);
  void load_rows(const Operand& o);
  void load_columns(const Operand& o);
  void load_image(const Operand& o);
  std::string row_guard(const Operand& o) const;
  void emit_prologue();
  std::string is_whole(const Operand& o) const;
  bool image_is_whole() const;

  // Products.
  void declare_sums();
  void emit_products();
  void stage_sums();
  void products_of_tensors_16();
  void products_of_groups();
  void products_of_tensors_32();
  void products_of_floats();
  void load_floats(const Operand& o, int count, const std::string& place);
  std::string element_32(const Operand& o, const std::string& place, const std::string& k) const;
  int warp_m() const { return tile_.m / tile_.warps_m; }
  int warp_n() const { return tile_.n / tile_.warps_n; }
  int floats_m() const { return tile_.m / (tile_.threads() / 16); }
  int floats_n() const { return tile_.n / 16; }
  bool in_groups() const { return tile_.math == ContractMath::GROUP_16; }
  int group_rows() const { return tile_.m / (tile_.warps_m / 4); }
  // Steps along k that loads are ahead. The tile before the last may still be read by groups of warps.
  int lead() const { return tile_.stages - (in_groups() ? 2 : 1); }
  bool is_plain() const { return tile_.math == ContractMath::PLAIN_32; }

  const ContractSpec& spec_;
  ContractTile tile_;
  CudaWriter out_;
  std::string element_;
  int size_;  // bytes of an element
};

}  // namespace deepjit
