// The element-level half of BodyEmitter: types in memory and registers, loads, stores, arithmetic.
#include <llvm/IR/Intrinsics.h>

#include "codegen/llvm/emit_llvm_body.h"

namespace deepjit {

using llvm::Type;
using llvm::Value;

Type* BodyEmitter::memory_type(DType dtype) const {
  llvm::LLVMContext& c = b_.getContext();
  switch (dtype) {
    case DType::FLOAT32:
      return Type::getFloatTy(c);
    case DType::FLOAT64:
      return Type::getDoubleTy(c);
    case DType::FLOAT16:
      return Type::getHalfTy(c);
    default:
      return Type::getIntNTy(c, static_cast<unsigned>(8 * dtype_size(dtype)));
  }
}

Type* BodyEmitter::register_type(DType dtype) const {
  return dtype == DType::BOOL ? Type::getInt1Ty(b_.getContext()) : memory_type(dtype);
}

Type* BodyEmitter::widen(Type* scalar, bool vector) const {
  return vector ? llvm::FixedVectorType::get(scalar, static_cast<unsigned>(width_)) : scalar;
}

Value* BodyEmitter::buffer_pointer(int32_t index, Value* column) {
  // Buffers lie one after another, each a row rounded up to whole vectors.
  Value* lane = b_.getInt64(static_cast<uint64_t>(width_));
  if (kernel_.lanes) {  // one vector a place
    Value* first = b_.CreateMul(row_.size, b_.getInt64(static_cast<uint64_t>(plan_.kept().at(index))));
    return b_.CreateGEP(b_.getFloatTy(), scratch_, b_.CreateMul(b_.CreateAdd(first, place_), lane));
  }
  Value* length = b_.CreateMul(b_.CreateUDiv(b_.CreateAdd(row_.size, b_.CreateSub(lane, b_.getInt64(1))), lane), lane);
  Value* at = b_.CreateAdd(b_.CreateMul(length, b_.getInt64(static_cast<uint64_t>(plan_.kept().at(index)))), column);
  return b_.CreateGEP(b_.getFloatTy(), scratch_, at);
}

// Does a vector of neighbours lie side by side in memory?
bool BodyEmitter::is_dense(int32_t access) const {
  return kernel_.accesses[static_cast<size_t>(access)].strides[kernel_.vector_axis()] == Quantity{1, {}};
}

Value* BodyEmitter::splat(Value* scalar) {
  if (scalar->getType()->isVectorTy()) return scalar;
  return b_.CreateVectorSplat(static_cast<unsigned>(width_), scalar);
}

// `first` and the numbers after it, one a lane.
Value* BodyEmitter::lane_numbers(Value* first) {
  std::vector<uint64_t> lanes(static_cast<size_t>(width_));
  for (size_t i = 0; i < lanes.size(); ++i) lanes[i] = i;
  return b_.CreateAdd(splat(first), llvm::ConstantDataVector::get(b_.getContext(), lanes));
}

Value* BodyEmitter::all_lanes() { return llvm::Constant::getAllOnesValue(widen(b_.getInt1Ty(), true)); }

// One element (column is nullptr) or a vector of them. `mask` says which lanes there are.
Value* BodyEmitter::load(int32_t index, const Values& values, Value* column, Value* mask) {
  const Inst& inst = kernel_.insts[static_cast<size_t>(index)];
  const auto a = static_cast<size_t>(inst.access);
  const Access& access = kernel_.accesses[a];
  Type* memory = memory_type(access.dtype);
  const llvm::Align align(dtype_size(access.dtype));
  Value* pointer = row_.pointers[a];
  if (kernel_.lanes && access.moves_along_row()) {
    pointer = b_.CreateGEP(memory, pointer, b_.CreateMul(place_, row_.strides[a]));
  }
  Value* places = nullptr;  // of each lane
  if (inst.args[0] >= 0 && (kernel_.lanes || varies(inst.args[0]))) {
    places = argument(inst.args[0], values, true);
  } else if (inst.args[0] >= 0) {
    pointer = b_.CreateGEP(memory, pointer, argument(inst.args[0], values, false));
  }
  Value* guard = inst.args[1] < 0 ? nullptr : argument(inst.args[1], values, column != nullptr);
  if (column != nullptr && places == nullptr && guard == nullptr && !access.moves(kernel_.vector_axis())) {
    return splat(from_memory(b_.CreateAlignedLoad(memory, pointer, align), access.dtype));
  }
  if (guard != nullptr) mask = mask == nullptr ? guard : b_.CreateAnd(mask, guard);
  if (column != nullptr) return from_memory(load_vector(inst, pointer, places, column, mask), access.dtype);
  if (mask == nullptr) return from_memory(b_.CreateAlignedLoad(memory, pointer, align), access.dtype);
  Type* one = llvm::FixedVectorType::get(memory, 1);
  Value* guarded =
      b_.CreateMaskedLoad(one, pointer, align, b_.CreateVectorSplat(1, mask), llvm::Constant::getNullValue(one));
  return from_memory(b_.CreateExtractElement(guarded, b_.getInt64(0)), access.dtype);
}

// Side by side where memory is walked densely, gathered otherwise.
Value* BodyEmitter::load_vector(const Inst& inst, Value* pointer, Value* places, Value* column, Value* mask) {
  const Access& access = kernel_.accesses[static_cast<size_t>(inst.access)];
  Type* memory = memory_type(access.dtype);
  Type* type = widen(memory, true);
  const llvm::Align align(dtype_size(access.dtype));
  llvm::Constant* zero = llvm::Constant::getNullValue(type);
  if (places == nullptr && is_dense(inst.access)) {
    Value* at = b_.CreateGEP(memory, pointer, column);
    if (mask == nullptr) return b_.CreateAlignedLoad(type, at, align);
    return b_.CreateMaskedLoad(type, at, align, mask, zero);
  }
  if (places == nullptr) places = llvm::Constant::getNullValue(widen(b_.getInt64Ty(), true));
  if (access.moves(kernel_.vector_axis())) {
    Value* stride = splat(row_.vector_strides[static_cast<size_t>(inst.access)]);
    places = b_.CreateAdd(places, b_.CreateMul(lane_numbers(column), stride));
  }
  return b_.CreateMaskedGather(type, b_.CreateGEP(memory, pointer, places), align, mask == nullptr ? all_lanes() : mask,
                               zero);
}

void BodyEmitter::store(int32_t index, Value* value, Value* column, Value* mask) {
  const auto a = static_cast<size_t>(index);
  const Access& access = kernel_.accesses[a];
  Type* memory = memory_type(access.dtype);
  const llvm::Align align(dtype_size(access.dtype));
  Value* pointer = row_.pointers[a];
  Value* raw = to_memory(value, access.dtype);
  if (kernel_.lanes && access.moves_along_row()) {
    pointer = b_.CreateGEP(memory, pointer, b_.CreateMul(place_, row_.strides[a]));
  }
  if (column != nullptr && !is_dense(index)) {
    Value* places = b_.CreateMul(lane_numbers(column), splat(row_.vector_strides[a]));
    b_.CreateMaskedScatter(raw, b_.CreateGEP(memory, pointer, places), align, mask == nullptr ? all_lanes() : mask);
    return;
  }
  Value* at = column != nullptr ? b_.CreateGEP(memory, pointer, column) : pointer;
  if (mask == nullptr) {
    b_.CreateAlignedStore(raw, at, align);
  } else {
    b_.CreateMaskedStore(raw, at, align, mask);
  }
}

Value* BodyEmitter::from_memory(Value* x, DType dtype) {
  const bool vector = x->getType()->isVectorTy();
  switch (dtype) {
    case DType::FLOAT16:
      return b_.CreateFPExt(x, widen(b_.getFloatTy(), vector));
    case DType::BFLOAT16:
      return b_.CreateBitCast(b_.CreateShl(b_.CreateZExt(x, widen(b_.getInt32Ty(), vector)), 16),
                              widen(b_.getFloatTy(), vector));
    case DType::BOOL:
      return b_.CreateICmpNE(x, llvm::Constant::getNullValue(x->getType()));
    case DType::INT8:
    case DType::INT16:
      return b_.CreateSExt(x, widen(b_.getInt32Ty(), vector));
    case DType::UINT8:
    case DType::UINT16:
      return b_.CreateZExt(x, widen(b_.getInt32Ty(), vector));
    default:
      return x;
  }
}

Value* BodyEmitter::to_memory(Value* x, DType dtype) {
  const bool vector = x->getType()->isVectorTy();
  Type* type = widen(memory_type(dtype), vector);
  switch (dtype) {
    case DType::FLOAT16:
      return b_.CreateFPTrunc(x, type);
    case DType::BFLOAT16: {
      // Round to nearest even in the upper half; a NaN keeps its upper bits and gets a quiet one.
      Type* word = widen(b_.getInt32Ty(), vector);
      auto number = [&](uint64_t n) { return llvm::ConstantInt::get(word, n); };
      Value* bits = b_.CreateBitCast(x, word);
      Value* high = b_.CreateLShr(bits, 16);
      Value* rounded =
          b_.CreateLShr(b_.CreateAdd(bits, b_.CreateAdd(b_.CreateAnd(high, number(1)), number(0x7fff))), 16);
      Value* nan = b_.CreateOr(high, number(0x40));
      return b_.CreateTrunc(b_.CreateSelect(b_.CreateFCmpUNO(x, x), nan, rounded), type);
    }
    case DType::BOOL:
      return b_.CreateZExt(x, type);
    case DType::INT8:
    case DType::INT16:
    case DType::UINT8:
    case DType::UINT16:
      return b_.CreateTrunc(x, type);
    default:
      return x;
  }
}

namespace {

// A constant that is not NaN.
bool is_number(Value* x) {
  auto* constant = llvm::dyn_cast<llvm::Constant>(x);
  if (constant != nullptr && x->getType()->isVectorTy()) constant = constant->getSplatValue();
  auto* number = constant == nullptr ? nullptr : llvm::dyn_cast<llvm::ConstantFP>(constant);
  return number != nullptr && !number->isNaN();
}

}  // namespace

Value* BodyEmitter::round_to(Value* x, DType dtype) { return from_memory(to_memory(x, dtype), dtype); }

// As the reference: to bool tests for nonzero, float to integer truncates, saturates and makes 0 of NaN.
Value* BodyEmitter::cast(Value* x, DType from, DType to) {
  Type* type = widen(register_type(to), x->getType()->isVectorTy());
  const bool from_float = from == DType::FLOAT32 || from == DType::FLOAT64;
  const bool to_float = to == DType::FLOAT32 || to == DType::FLOAT64;
  if (to == DType::BOOL) {
    Value* zero = llvm::Constant::getNullValue(x->getType());
    return from_float ? b_.CreateFCmpUNE(x, zero) : b_.CreateICmpNE(x, zero);
  }
  if (from_float && to_float) return b_.CreateFPCast(x, type);
  if (from_float) return b_.CreateIntrinsic(llvm::Intrinsic::fptosi_sat, {type, x->getType()}, {x});
  if (from == DType::BOOL) return to_float ? b_.CreateUIToFP(x, type) : b_.CreateZExt(x, type);
  return to_float ? b_.CreateSIToFP(x, type) : b_.CreateSExtOrTrunc(x, type);
}

Value* BodyEmitter::operation(const Inst& inst, const std::vector<Value*>& a) {
  const bool floating = a.back()->getType()->isFPOrFPVectorTy();
  auto is_nan = [&](Value* x) { return b_.CreateFCmpUNO(x, x); };
  auto unary = [&](llvm::Intrinsic::ID id) { return b_.CreateUnaryIntrinsic(id, a[0]); };
  switch (inst.op) {
    case Opcode::NEG:
      return floating ? b_.CreateFNeg(a[0]) : b_.CreateNeg(a[0]);
    case Opcode::ABS:
      return unary(llvm::Intrinsic::fabs);
    case Opcode::SQRT:
      return unary(llvm::Intrinsic::sqrt);
    case Opcode::FLOOR:
      return unary(llvm::Intrinsic::floor);
    case Opcode::CEIL:
      return unary(llvm::Intrinsic::ceil);
    case Opcode::ROUND:
      return unary(llvm::Intrinsic::roundeven);
    case Opcode::EXP:
      return math_.exp(a[0]);
    case Opcode::LOG:
      return math_.log(a[0]);
    case Opcode::ERF:
      return math_.erf(a[0]);
    case Opcode::TANH:
      return math_.tanh(a[0]);
    case Opcode::SIGMOID:
      return math_.sigmoid(a[0]);
    case Opcode::NOT:
      return b_.CreateNot(a[0]);
    case Opcode::IS_NAN:
      return is_nan(a[0]);
    case Opcode::RECIPROCAL:
      return b_.CreateFDiv(llvm::ConstantFP::get(a[0]->getType(), 1.0), a[0]);
    case Opcode::ADD:
      return floating ? b_.CreateFAdd(a[0], a[1]) : b_.CreateAdd(a[0], a[1]);
    case Opcode::SUB:
      return floating ? b_.CreateFSub(a[0], a[1]) : b_.CreateSub(a[0], a[1]);
    case Opcode::MUL:
      return floating ? b_.CreateFMul(a[0], a[1]) : b_.CreateMul(a[0], a[1]);
    case Opcode::DIV:
      return b_.CreateFDiv(a[0], a[1]);
    case Opcode::MIN:
    case Opcode::MAX: {
      const bool low = inst.op == Opcode::MIN;
      if (!floating) {
        return b_.CreateSelect(low ? b_.CreateICmpSLT(a[0], a[1]) : b_.CreateICmpSGT(a[0], a[1]), a[0], a[1]);
      }
      // Against a number this is one instruction, which gives its second operand for NaN.
      for (size_t k = 0; k < 2; ++k) {
        if (!is_number(a[k])) continue;
        Value* wins = low ? b_.CreateFCmpOLT(a[k], a[1 - k]) : b_.CreateFCmpOGT(a[k], a[1 - k]);
        return b_.CreateSelect(wins, a[k], a[1 - k]);
      }
      // The comparison fails for NaN and gives the second operand: right when that one is the NaN.
      Value* picked = b_.CreateSelect(low ? b_.CreateFCmpOLT(a[0], a[1]) : b_.CreateFCmpOGT(a[0], a[1]), a[0], a[1]);
      return b_.CreateSelect(is_nan(a[0]), a[0], picked);
    }
    case Opcode::EQ:
      return floating ? b_.CreateFCmpOEQ(a[0], a[1]) : b_.CreateICmpEQ(a[0], a[1]);
    case Opcode::LT:
      return floating ? b_.CreateFCmpOLT(a[0], a[1]) : b_.CreateICmpSLT(a[0], a[1]);
    case Opcode::LE:
      return floating ? b_.CreateFCmpOLE(a[0], a[1]) : b_.CreateICmpSLE(a[0], a[1]);
    case Opcode::AND:
      return b_.CreateAnd(a[0], a[1]);
    case Opcode::OR:
      return b_.CreateOr(a[0], a[1]);
    case Opcode::XOR:
      return b_.CreateXor(a[0], a[1]);
    case Opcode::SELECT:
      return b_.CreateSelect(a[0], a[1], a[2]);
    default:
      throw Error(Code::INTERNAL, "codegen: no LLVM for " + std::string(opcode_name(inst.op)));
  }
}

}  // namespace deepjit
