// BodyEmitter's other way: a vector of rows side by side. Every value is a vector, one row a lane; reductions go on in
// each lane by itself, and nothing is added across.
#include "codegen/llvm/emit_llvm_body.h"

namespace deepjit {

using llvm::Value;

void BodyEmitter::emit_lanes(Row row) {
  row_ = std::move(row);
  Value* step = b_.getInt64(static_cast<uint64_t>(width_));
  // Whole vectors, then what is left under a mask.
  auto loop = [&](Value* first, bool masked) {
    llvm::BasicBlock* before = b_.GetInsertBlock();
    llvm::BasicBlock* head = block("lanes");
    llvm::BasicBlock* body = block("lanes");
    llvm::BasicBlock* done = block("lanes");
    b_.CreateBr(head);
    b_.SetInsertPoint(head);
    llvm::PHINode* lane = b_.CreatePHI(b_.getInt64Ty(), 2);
    lane->addIncoming(first, before);
    Value* next = b_.CreateAdd(lane, step);
    b_.CreateCondBr(masked ? b_.CreateICmpSLT(lane, row_.end) : b_.CreateICmpSLE(next, row_.end), body, done);
    b_.SetInsertPoint(body);
    emit_lane_vector(lane, masked ? tail_mask(lane) : nullptr);
    lane->addIncoming(next, b_.GetInsertBlock());
    b_.CreateBr(head);
    b_.SetInsertPoint(done);
    return lane;
  };
  loop(loop(row_.begin, false), true);
}

void BodyEmitter::emit_lane_vector(Value* lane, Value* mask) {
  scalars_.clear();
  auto known = [&](int stage) {  // what does not vary along the rows and is known before the pass
    for (size_t i = 0; i < kernel_.insts.size(); ++i) {
      const auto index = static_cast<int32_t>(i);
      if (!plan_.is_live(index) || varies(index) || is_reduction(kernel_.insts[i].op) || scalars_.count(index) != 0)
        continue;
      if (plan_.stage_of(index) <= stage) scalars_[index] = splat(emit(index, scalars_, lane, mask));
    }
  };
  for (int stage = 0; stage < plan_.stages(); ++stage) {
    known(stage);
    emit_lane_stage(stage, lane, mask);
  }
  known(plan_.stages());
  for (const Store& s : kernel_.stores) {
    const Access& access = kernel_.accesses[static_cast<size_t>(s.access)];
    if (!access.moves_along_row()) store(s.access, scalars_.at(s.value), lane, mask);
  }
}

// One pass over the places of the rows.
void BodyEmitter::emit_lane_stage(int stage, Value* lane, Value* mask) {
  const std::vector<int32_t> order = plan_.needed_in(stage, true);
  const std::vector<int32_t> reductions = plan_.reductions_of(stage);
  if (order.empty() && reductions.empty() && plan_.stores_of(stage).empty()) return;
  llvm::BasicBlock* before = b_.GetInsertBlock();
  llvm::BasicBlock* head = block("place");
  llvm::BasicBlock* body = block("place");
  llvm::BasicBlock* done = block("place");
  b_.CreateBr(head);
  b_.SetInsertPoint(head);
  llvm::PHINode* place = b_.CreatePHI(b_.getInt64Ty(), 2);
  place->addIncoming(b_.getInt64(0), before);
  std::vector<llvm::PHINode*> carried;
  for (int32_t r : reductions) {
    Value* start = identity(kernel_.insts[static_cast<size_t>(r)], true);
    carried.push_back(b_.CreatePHI(start->getType(), 2));
    carried.back()->addIncoming(start, before);
  }
  b_.CreateCondBr(b_.CreateICmpSLT(place, row_.size), body, done);
  b_.SetInsertPoint(body);
  place_ = place;
  const std::vector<Values> values = emit_columns(order, stage, {lane}, mask);
  std::vector<Value*> sums(carried.begin(), carried.end());
  fold_columns(values[0], reductions, sums, nullptr);
  llvm::BasicBlock* latch = b_.GetInsertBlock();
  place->addIncoming(b_.CreateAdd(place, b_.getInt64(1)), latch);
  for (size_t k = 0; k < carried.size(); ++k) carried[k]->addIncoming(sums[k], latch);
  b_.CreateBr(head);
  b_.SetInsertPoint(done);
  for (size_t k = 0; k < carried.size(); ++k) scalars_[reductions[k]] = carried[k];
  place_ = nullptr;
}

}  // namespace deepjit
