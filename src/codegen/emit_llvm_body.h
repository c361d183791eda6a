// One row of a kernel as LLVM IR: passes over the columns in vectors, reductions between them.
//
// Every pass ("stage") goes over the row once. A pass computes again what it needs of earlier passes, unless that is
// costly: then the earlier pass leaves the values in a row buffer. The last vector of a row is masked. Reductions
// add in a fixed order: some vectors side by side, then halves onto halves.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <map>
#include <vector>

#include "codegen/emit_llvm_math.h"
#include "codegen/kernel_ir.h"

namespace deepjit {

class BodyEmitter {
 public:
  BodyEmitter(const KernelIr& kernel, llvm::IRBuilder<>& builder, llvm::Value* scratch);

  // Emits the work for one row: `pointers` has the row's start for each access.
  void emit_row(const std::vector<llvm::Value*>& pointers, llvm::Value* row_size, llvm::Value* begin, llvm::Value* end);
  // Float rows that the scratch memory must hold.
  int row_buffers() const { return static_cast<int>(buffers_.size()); }

 private:
  using Values = std::map<int32_t, llvm::Value*>;  // instruction -> its value

  void plan_buffers();
  std::vector<int32_t> needed_in(int stage) const;
  void emit_scalars(int stage);
  void emit_stage(int stage);
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
  llvm::Value* load(const Access& access, llvm::Value* pointer, llvm::Value* column, llvm::Value* mask);
  void store(const Access& access, llvm::Value* pointer, llvm::Value* value, llvm::Value* column, llvm::Value* mask);
  llvm::Value* from_memory(llvm::Value* x, DType dtype);
  llvm::Value* to_memory(llvm::Value* x, DType dtype);
  llvm::Value* buffer_pointer(int32_t index, llvm::Value* column);

  llvm::Value* combine(Opcode op, llvm::Value* a, llvm::Value* b);
  llvm::Value* identity(const Inst& reduction, bool vector);
  llvm::Value* across(Opcode op, llvm::Value* vector);
  llvm::BasicBlock* block(const char* name);
  bool varies(int32_t index) const { return per_element_[static_cast<size_t>(index)]; }

  const KernelIr& kernel_;
  llvm::IRBuilder<>& b_;
  llvm_math::Math math_;
  llvm::Value* scratch_;
  int width_;
  std::vector<bool> per_element_;
  std::vector<int> stage_;
  int stages_ = 1;
  std::map<int32_t, int> buffers_;  // instruction -> its row buffer

  // Of the row at work.
  std::vector<llvm::Value*> pointers_;
  llvm::Value* row_size_ = nullptr;
  llvm::Value* begin_ = nullptr;
  llvm::Value* end_ = nullptr;
  Values scalars_;
};

}  // namespace deepjit
