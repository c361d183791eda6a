#include "codegen/llvm/emit_llvm_body.h"

#include <llvm/IR/Intrinsics.h>

#include <algorithm>

#include "codegen/llvm/emit_llvm_target.h"

namespace deepjit {

using llvm::Type;
using llvm::Value;

namespace {

constexpr int kSideBySide = 4;  // vectors at work together: their latencies overlap (docs/codegen.md has the figures)

}  // namespace

BodyEmitter::BodyEmitter(const KernelIr& kernel, llvm::IRBuilder<>& builder, Value* scratch)
    : kernel_(kernel),
      b_(builder),
      math_(builder, math_target()),
      scratch_(scratch),
      width_(vector_width()),
      plan_(kernel, Keeping::IN_MEMORY) {}

llvm::BasicBlock* BodyEmitter::block(const char* name) {
  return llvm::BasicBlock::Create(b_.getContext(), name, b_.GetInsertBlock()->getParent());
}

void BodyEmitter::emit_row(Row row) {
  row_ = std::move(row);
  scalars_.clear();
  for (int stage = 0; stage < plan_.stages(); ++stage) {
    emit_scalars(stage);
    emit_stage(stage);
  }
  emit_scalars(plan_.stages());
  for (const Store& s : kernel_.stores) {
    const Access& access = kernel_.accesses[static_cast<size_t>(s.access)];
    if (!access.moves_along_row()) {
      store(s.access, scalars_.at(s.value), nullptr, nullptr);
    }
  }
}

// Row values that are known once the passes before `stage` are done.
void BodyEmitter::emit_scalars(int stage) {
  for (size_t i = 0; i < kernel_.insts.size(); ++i) {
    const auto index = static_cast<int32_t>(i);
    if (!plan_.is_live(index) || varies(index) || is_reduction(kernel_.insts[i].op) || scalars_.count(index) != 0)
      continue;
    if (plan_.stage_of(index) <= stage) scalars_[index] = emit(index, scalars_, nullptr, nullptr);
  }
}

void BodyEmitter::emit_stage(int stage) {
  const std::vector<int32_t> order = plan_.needed_in(stage, true);
  const std::vector<int32_t> reductions = plan_.reductions_of(stage);
  if (order.empty() && reductions.empty() && plan_.stores_of(stage).empty()) return;

  const int unroll = kSideBySide;
  const size_t lanes = reductions.size() * static_cast<size_t>(unroll);
  Type* word = b_.getInt64Ty();
  Value* step = b_.getInt64(static_cast<uint64_t>(width_ * unroll));
  std::vector<Value*> start;
  for (size_t k = 0; k < lanes; ++k) {
    start.push_back(identity(kernel_.insts[static_cast<size_t>(reductions[k % reductions.size()])], true));
  }

  auto loop = [&](const char* name, Value* first, const std::vector<Value*>& sums, Value* stride, int copies,
                  bool masked, Value*& last, std::vector<Value*>& after) {
    llvm::BasicBlock* before = b_.GetInsertBlock();
    llvm::BasicBlock* head = block(name);
    llvm::BasicBlock* body = block(name);
    llvm::BasicBlock* done = block(name);
    b_.CreateBr(head);
    b_.SetInsertPoint(head);
    llvm::PHINode* column = b_.CreatePHI(word, 2);
    column->addIncoming(first, before);
    std::vector<llvm::PHINode*> carried;
    for (Value* s : sums) {
      carried.push_back(b_.CreatePHI(s->getType(), 2));
      carried.back()->addIncoming(s, before);
    }
    Value* goes_on =
        masked ? b_.CreateICmpSLT(column, row_.end) : b_.CreateICmpSLE(b_.CreateAdd(column, stride), row_.end);
    b_.CreateCondBr(goes_on, body, done);
    b_.SetInsertPoint(body);
    std::vector<Value*> next(carried.begin(), carried.end());
    std::vector<Value*> columns;
    for (int copy = 0; copy < copies; ++copy) {
      columns.push_back(copy == 0 ? column : b_.CreateAdd(column, b_.getInt64(static_cast<uint64_t>(copy * width_))));
    }
    Value* mask = masked ? tail_mask(column) : nullptr;
    const std::vector<Values> values = emit_columns(order, stage, columns, mask);
    for (size_t copy = 0; copy < values.size(); ++copy) {
      const auto first_sum = next.begin() + static_cast<std::ptrdiff_t>(copy * reductions.size());
      std::vector<Value*> own(first_sum, first_sum + static_cast<std::ptrdiff_t>(reductions.size()));
      fold_columns(values[copy], reductions, own, mask);
      std::copy(own.begin(), own.end(), first_sum);
    }
    llvm::BasicBlock* latch = b_.GetInsertBlock();
    column->addIncoming(b_.CreateAdd(column, stride), latch);
    for (size_t k = 0; k < carried.size(); ++k) carried[k]->addIncoming(next[k], latch);
    b_.CreateBr(head);
    b_.SetInsertPoint(done);
    last = column;
    after.assign(carried.begin(), carried.end());
  };

  Value* column = nullptr;
  std::vector<Value*> sums;
  loop("wide", row_.begin, start, step, unroll, false, column, sums);
  for (int copy = unroll - 1; copy > 0; --copy) {
    for (size_t k = 0; k < reductions.size(); ++k) {
      const Opcode op = kernel_.insts[static_cast<size_t>(reductions[k])].op;
      Value*& into = sums[static_cast<size_t>(copy - 1) * reductions.size() + k];
      into = combine(op, into, sums[static_cast<size_t>(copy) * reductions.size() + k]);
    }
  }
  sums.resize(reductions.size());
  std::vector<Value*> total;
  loop("tail", column, sums, b_.getInt64(static_cast<uint64_t>(width_)), 1, true, column, total);
  for (size_t k = 0; k < reductions.size(); ++k) {
    scalars_[reductions[k]] = across(kernel_.insts[static_cast<size_t>(reductions[k])].op, total[k]);
  }
}

// Which lanes of the vector at `column` lie before the end.
Value* BodyEmitter::tail_mask(Value* column) {
  std::vector<uint32_t> lanes(static_cast<size_t>(width_));
  for (size_t i = 0; i < lanes.size(); ++i) lanes[i] = static_cast<uint32_t>(i);
  Value* left = b_.CreateTrunc(b_.CreateSub(row_.end, column), b_.getInt32Ty());
  return b_.CreateICmpULT(llvm::ConstantDataVector::get(b_.getContext(), lanes),
                          b_.CreateVectorSplat(static_cast<unsigned>(width_), left));
}

std::vector<BodyEmitter::Values> BodyEmitter::emit_columns(const std::vector<int32_t>& order, int stage,
                                                           const std::vector<Value*>& columns, Value* mask) {
  std::vector<Values> values(columns.size());
  for (int32_t index : order) {
    for (size_t copy = 0; copy < columns.size(); ++copy) {
      Value*& value = values[copy][index];
      if (plan_.read_back(index, stage)) {
        Value* kept = buffer_pointer(index, columns[copy]);
        value = b_.CreateAlignedLoad(widen(b_.getFloatTy(), true), kept, llvm::Align(4));
        continue;
      }
      value = emit(index, values[copy], columns[copy], mask);
      // The buffer is as long as whole vectors, so its stores need no mask.
      if (plan_.is_kept(index)) b_.CreateAlignedStore(value, buffer_pointer(index, columns[copy]), llvm::Align(4));
    }
  }
  for (const Store& s : plan_.stores_of(stage)) {
    for (size_t copy = 0; copy < columns.size(); ++copy) {
      store(s.access, argument(s.value, values[copy], true), columns[copy], mask);
    }
  }
  return values;
}

void BodyEmitter::fold_columns(const Values& values, const std::vector<int32_t>& reductions, std::vector<Value*>& sums,
                               Value* mask) {
  for (size_t k = 0; k < reductions.size(); ++k) {
    const Inst& inst = kernel_.insts[static_cast<size_t>(reductions[k])];
    Value* x = argument(inst.args[0], values, true);
    if (mask != nullptr) x = b_.CreateSelect(mask, x, identity(inst, true));
    sums[k] = combine(inst.op, sums[k], x);
  }
}

Value* BodyEmitter::argument(int32_t index, const Values& values, bool vector) {
  if (varies(index)) return values.at(index);
  Value* known = scalars_.at(index);
  return vector ? splat(known) : known;
}

Value* BodyEmitter::emit(int32_t index, const Values& values, Value* column, Value* mask) {
  const Inst& inst = kernel_.insts[static_cast<size_t>(index)];
  if (inst.op == Opcode::CONST) {
    Type* type = register_type(inst.type);
    if (type->isFloatingPointTy()) return llvm::ConstantFP::get(type, inst.number);
    return llvm::ConstantInt::get(type, static_cast<uint64_t>(static_cast<int64_t>(inst.number)), true);
  }
  if (inst.op == Opcode::ROW_SIZE) {
    Type* type = register_type(inst.type);
    return type->isFloatingPointTy() ? b_.CreateSIToFP(row_.size, type) : b_.CreateSExtOrTrunc(row_.size, type);
  }
  if (inst.op == Opcode::LOAD) {
    return load(index, values, varies(index) || kernel_.lanes ? column : nullptr, mask);
  }
  if (inst.op == Opcode::SIZE) return row_.sizes[static_cast<size_t>(inst.access)];
  if (inst.op == Opcode::INDEX) {
    const auto axis = static_cast<size_t>(inst.access);
    if (axis == kernel_.vector_axis()) return lane_numbers(column);
    return axis + 1 == kernel_.rank() ? splat(place_) : row_.index[axis];
  }
  std::vector<Value*> args;
  for (int32_t arg : inst.args) {
    if (arg >= 0) args.push_back(argument(arg, values, varies(index) || kernel_.lanes));
  }
  if (inst.op == Opcode::CAST) return cast(args[0], kernel_.insts[static_cast<size_t>(inst.args[0])].type, inst.type);
  if (inst.op == Opcode::ROUND_TO) return round_to(args[0], static_cast<DType>(inst.access));
  return operation(inst, args);
}

// ---- reductions -----------------------------------------------------------------------------------------

Value* BodyEmitter::combine(Opcode op, Value* a, Value* b) {
  const bool floating = a->getType()->isFPOrFPVectorTy();
  switch (op) {
    case Opcode::SUM:
      return floating ? b_.CreateFAdd(a, b) : b_.CreateAdd(a, b);
    case Opcode::PRODUCT:
      return floating ? b_.CreateFMul(a, b) : b_.CreateMul(a, b);
    default:
      return operation({op == Opcode::MINIMUM ? Opcode::MIN : Opcode::MAX, DType::FLOAT32}, {a, b});
  }
}

Value* BodyEmitter::identity(const Inst& reduction, bool vector) {
  Type* type = widen(register_type(reduction.type), vector);
  if (type->isIntOrIntVectorTy()) {
    const unsigned bits = type->getScalarSizeInBits();
    const llvm::APInt number = reduction.op == Opcode::SUM       ? llvm::APInt::getZero(bits)
                               : reduction.op == Opcode::PRODUCT ? llvm::APInt(bits, 1)
                               : reduction.op == Opcode::MINIMUM ? llvm::APInt::getSignedMaxValue(bits)
                                                                 : llvm::APInt::getSignedMinValue(bits);
    return llvm::ConstantInt::get(type, number);
  }
  switch (reduction.op) {
    case Opcode::SUM:
      return llvm::Constant::getNullValue(type);
    case Opcode::PRODUCT:
      return llvm::ConstantFP::get(type, 1.0);
    case Opcode::MINIMUM:
      return llvm::ConstantFP::getInfinity(type);
    default:
      return llvm::ConstantFP::getInfinity(type, true);
  }
}

// All lanes into one: the upper half onto the lower, again and again.
Value* BodyEmitter::across(Opcode op, Value* vector) {
  for (int half = width_ / 2; half > 0; half /= 2) {
    std::vector<int> low;
    std::vector<int> high;
    for (int i = 0; i < half; ++i) {
      low.push_back(i);
      high.push_back(half + i);
    }
    vector = combine(op, b_.CreateShuffleVector(vector, low), b_.CreateShuffleVector(vector, high));
  }
  return b_.CreateExtractElement(vector, b_.getInt64(0));
}

}  // namespace deepjit
