// What one thread does with its columns of a row: passes over them, reductions between the passes.
//
// The text stands in the loops of emit_cuda.cpp, which give it `row` and its index along the outer axes, and pointers
// a0, a1 ... to the row's start for each access.
//
// A body of a resident mapping (emit_cuda_resident.cpp) is right for aligned rows of whole chunks that its threads can
// hold; a body of another mapping, for all rows.
#pragma once

#include <string>
#include <vector>

#include "codegen/cuda/emit_cuda.h"
#include "codegen/cuda/emit_cuda_writer.h"
#include "codegen/row_plan.h"

namespace deepjit {

class CudaBody {
 public:
  CudaBody(const KernelIr& kernel, const CudaMapping& mapping, Keeping keeping, CudaWriter& out);

  const RowPlan& plan() const { return plan_; }
  // The text of each access's row stride, of the kernel's sizes, and of the limits of its checks.
  void set_quantities(std::vector<std::string> row_strides, std::vector<std::string> sizes,
                      std::vector<std::string> limits) {
    row_strides_ = std::move(row_strides);
    sizes_ = std::move(sizes);
    limits_ = std::move(limits);
  }

  // A flat kernel: the columns from `column`, before `columns`.
  void emit_flat();
  // A kernel of rows: shared memory, before all loops; then one row.
  void declare_parts();
  void declare_row_buffers();
  void emit_row();
  // Of a resident mapping, before the loop over rows: the elements that are the same for all of them.
  void emit_held_columns(const std::string& condition);

  // Is the access read or written by whole vectors? Its alignment is then part of `dense`.
  bool is_vector(int32_t access_index) const;

 private:
  void emit_scalars(int stage);
  void emit_row_stores();
  void emit_stage(int stage);
  void emit_passes(int stage);
  void start_reductions(const std::vector<int32_t>& reductions);
  void emit_pass(int stage, const std::vector<int32_t>& order, bool keeping);
  void emit_chunk(int stage, const std::vector<int32_t>& order, bool keeping);
  void emit_whole_chunk(int stage, const std::vector<int32_t>& order, bool keeping);
  bool reaches_vectors(int stage, const std::vector<int32_t>& order, bool keeping) const;
  void emit_lane(int stage, const std::vector<int32_t>& order, bool keeping);
  void declare_results(int stage);
  void store_results(int stage);
  void emit_resident_pass(int stage);
  void load_resident(const std::vector<int32_t>& loads, const char* end);
  void declare_resident(int stage, const std::vector<int32_t>& order);
  bool is_held(int32_t index) const;
  void declare_elements(int32_t index);
  void open_chunks(const char* end);
  void close_chunks();
  void fold_lanes(const std::vector<int32_t>& reductions);
  void fold_threads(const std::vector<int32_t>& reductions);
  void fold_across(const std::vector<int32_t>& reductions);

  const Inst& inst(int32_t index) const { return kernel_.insts[static_cast<size_t>(index)]; }
  const Access& access(int32_t index) const { return kernel_.accesses[static_cast<size_t>(index)]; }
  std::string value(int32_t index) const;
  std::string expression(int32_t index);
  std::string combined(int32_t reduction, const std::string& a, const std::string& b);
  std::string element(int32_t access_index, const std::string& where = "") const;
  std::string load(int32_t index);
  std::string checked(int32_t index, const std::string& loaded);
  std::string kept_element(int32_t index) const;
  bool is_vector_load(int32_t index) const;
  bool is_vector_store(const Store& store) const { return in_vectors() && is_dense(store.access); }
  // Are the columns of a chunk held in vectors, whose lanes `k` counts? Of a resident one they are, be it of one
  // column.
  bool in_vectors() const { return width_ > 1 || is_resident(); }
  bool is_resident() const { return mapping_.chunks > 0; }
  // Is the text now being written that of one lane of a vector?
  bool has_lanes() const { return in_vectors() && !one_by_one_; }
  bool is_dense(int32_t access_index) const { return access(access_index).strides.back() == Quantity{1, {}}; }
  int warps_per_row() const { return mapping_.across ? 0 : mapping_.threads_per_row / 32; }
  // Do the rows of a block lie side by side in row buffers, as their threads do?
  bool rows_beside() const { return mapping_.across || mapping_.threads_per_row == 1; }

  const KernelIr& kernel_;
  CudaMapping mapping_;
  CudaWriter& out_;
  RowPlan plan_;
  int width_;
  std::vector<std::string> row_strides_;
  std::vector<std::string> sizes_;
  std::vector<std::string> limits_;
  std::vector<bool> known_;  // row values that have been written
  bool one_by_one_ = false;  // the columns of a chunk that is not whole
};

}  // namespace deepjit
