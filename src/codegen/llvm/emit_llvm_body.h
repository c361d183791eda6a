// One row of a kernel as LLVM IR: passes over the columns in vectors, reductions between them. Or a vector of rows that
// lie side by side in memory ("lanes"): the passes go from place to place, and every value is a vector.
//
// Every pass ("stage") goes over the row once. A pass computes again what it needs of earlier passes, unless that is
// costly: then the earlier pass leaves the values in a row buffer. The last vector of a row is masked. Reductions
// add in a fixed order: some vectors side by side, then halves onto halves.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <map>
#include <vector>

#include "codegen/kernel_ir.h"
#include "codegen/llvm/emit_llvm_math.h"
#include "codegen/row_plan.h"

namespace deepjit {

class BodyEmitter {
 public:
  BodyEmitter(const KernelIr& kernel, llvm::IRBuilder<>& builder, llvm::Value* scratch);

  // What is known of one row: where each access starts there, its stride along the row and along the vector axis, the
  // coordinates along the outer axes, the kernel's sizes, the elements of the whole row and the columns to do.
  struct Row {
    std::vector<llvm::Value*> pointers;
    std::vector<llvm::Value*> strides;
    std::vector<llvm::Value*> vector_strides;
    std::vector<llvm::Value*> index;
    std::vector<llvm::Value*> sizes;
    llvm::Value* size = nullptr;
    llvm::Value* begin = nullptr;
    llvm::Value* end = nullptr;
  };

  // Emits the work for one row.
  void emit_row(Row row);
  // Emits the work for the rows that begin at the columns to do.
  void emit_lanes(Row row);
  // Float rows that the scratch memory must hold.
  int row_buffers() const { return static_cast<int>(plan_.kept().size()); }

 private:
  using Values = std::map<int32_t, llvm::Value*>;  // instruction -> its value

  void emit_scalars(int stage);
  void emit_stage(int stage);
  void emit_lane_vector(llvm::Value* lane, llvm::Value* mask);
  void emit_lane_stage(int stage, llvm::Value* lane, llvm::Value* mask);
  // Some vectors of columns, instruction by instruction side by side: their chains of latencies overlap. `mask` is null
  // for full vectors. Returns the values of all instructions, per vector.
  std::vector<Values> emit_columns(const std::vector<int32_t>& order, int stage,
                                   const std::vector<llvm::Value*>& columns, llvm::Value* mask);
  llvm::Value* tail_mask(llvm::Value* column);
  void fold_columns(const Values& values, const std::vector<int32_t>& reductions, std::vector<llvm::Value*>& sums,
                    llvm::Value* mask);
  llvm::Value* emit(int32_t index, const Values& values, llvm::Value* column, llvm::Value* mask);
  llvm::Value* operation(const Inst& inst, const std::vector<llvm::Value*>& args);
  llvm::Value* argument(int32_t index, const Values& values, bool vector);
  llvm::Value* cast(llvm::Value* x, DType from, DType to);
  llvm::Value* round_to(llvm::Value* x, DType dtype);

  llvm::Type* memory_type(DType dtype) const;
  llvm::Type* register_type(DType dtype) const;
  llvm::Type* widen(llvm::Type* scalar, bool vector) const;
  llvm::Value* load(int32_t index, const Values& values, llvm::Value* column, llvm::Value* mask);
  void store(int32_t access, llvm::Value* value, llvm::Value* column, llvm::Value* mask);
  llvm::Value* load_vector(const Inst& inst, llvm::Value* pointer, llvm::Value* places, llvm::Value* column,
                           llvm::Value* mask);
  bool is_dense(int32_t access) const;
  llvm::Value* splat(llvm::Value* scalar);
  llvm::Value* lane_numbers(llvm::Value* first);
  llvm::Value* all_lanes();
  llvm::Value* from_memory(llvm::Value* x, DType dtype);
  llvm::Value* to_memory(llvm::Value* x, DType dtype);
  llvm::Value* buffer_pointer(int32_t index, llvm::Value* column);

  llvm::Value* combine(Opcode op, llvm::Value* a, llvm::Value* b);
  llvm::Value* identity(const Inst& reduction, bool vector);
  llvm::Value* across(Opcode op, llvm::Value* vector);
  llvm::BasicBlock* block(const char* name);
  bool varies(int32_t index) const { return plan_.per_element(index); }

  const KernelIr& kernel_;
  llvm::IRBuilder<>& b_;
  llvm_math::Math math_;
  llvm::Value* scratch_;
  int width_;
  RowPlan plan_;

  // Of the row at work.
  Row row_;
  llvm::Value* place_ = nullptr;  // in lanes: the place in the rows
  Values scalars_;                // what does not vary along the row; in lanes, vectors too
};

}  // namespace deepjit
