// The passes over the row of a kernel: what each computes, and which values are worth keeping between them.
//
// Each pass ("stage") goes over the row once. A value is first computed in the first pass that needs it; later passes
// compute it again, or read it back when it was kept.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "codegen/kernel_ir.h"

namespace deepjit {

// Where values are kept between passes.
enum class Keeping {
  NOWHERE,
  IN_MEMORY,     // a buffer of floats, when computing them again costs more than a few instructions
  IN_REGISTERS,  // values of any type, and the elements of plain loads anyhow: no element is read twice
};

class RowPlan {
 public:
  RowPlan(const KernelIr& kernel, Keeping keeping);

  int stages() const { return stages_; }
  // Does a store need it?
  bool is_live(int32_t index) const { return live_[static_cast<size_t>(index)]; }
  int stage_of(int32_t index) const { return stage_[static_cast<size_t>(index)]; }
  bool per_element(int32_t index) const { return per_element_[static_cast<size_t>(index)]; }
  // Instruction -> the number of its row buffer. Not the loads whose elements stay in registers.
  const std::map<int32_t, int>& kept() const { return kept_; }
  bool is_kept(int32_t index) const { return kept_.count(index) != 0; }
  // Is it read back in this pass, rather than computed?
  bool read_back(int32_t index, int stage) const { return is_kept(index) && stage_of(index) < stage; }

  // Per-element instructions that the pass needs for its reductions, stores and row buffers, in order. Without
  // `keeping`, nothing is kept or read back.
  std::vector<int32_t> needed_in(int stage, bool keeping) const;
  std::vector<int32_t> reductions_of(int stage) const;
  // Stores along the row. A reduction itself is stored one pass after the pass that makes it.
  std::vector<Store> stores_of(int stage) const;

 private:
  int stage_of(const Store& store) const;
  void find_live();
  void put_off();
  int cost_of(const Inst& inst) const;
  bool find_costly();

  const KernelIr& kernel_;
  Keeping keeping_;
  std::vector<bool> per_element_;
  std::vector<int> stage_;
  std::vector<bool> live_;
  int stages_ = 1;
  std::map<int32_t, int> kept_;
};

}  // namespace deepjit
