#include "codegen/llvm/emit_llvm.h"

#include <llvm/Config/llvm-config.h>
#include <llvm/IR/Verifier.h>

#include <map>

#include "base/cpu.h"
#include "codegen/llvm/emit_llvm_body.h"
#include "codegen/llvm/emit_llvm_target.h"

namespace deepjit {

namespace {

using llvm::BasicBlock;
using llvm::PHINode;
using llvm::Type;
using llvm::Value;

// The function of one kernel: the loops. What happens at one point is BodyEmitter's.
class FunctionEmitter {
 public:
  FunctionEmitter(const KernelIr& kernel, llvm::Module& module, CpuCode& out)
      : kernel_(kernel), context_(module.getContext()), b_(context_), out_(out) {
    Type* pointer = b_.getPtrTy();
    Type* word = b_.getInt64Ty();
    auto* type = llvm::FunctionType::get(b_.getVoidTy(), {pointer, pointer, word, word, word, word, pointer}, false);
    function_ = llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage, "kernel", module);
    function_->addFnAttr("no-builtins");
    function_->setDoesNotThrow();
    for (unsigned i : {0u, 1u, 6u}) function_->addParamAttr(i, llvm::Attribute::NoAlias);
  }

  void run() {
    b_.SetInsertPoint(block("entry"));
    body_ = std::make_unique<BodyEmitter>(kernel_, b_, function_->getArg(6));
    const std::vector<Value*> operands = load_operands();
    load_params();
    emit_rows(offset_bases(operands));
    out_.row_buffers = body_->row_buffers();
  }

 private:
  BasicBlock* block(const char* name) { return BasicBlock::Create(context_, name, function_); }
  Value* word(int64_t value) { return b_.getInt64(static_cast<uint64_t>(value)); }

  std::vector<Value*> load_operands() {
    std::vector<Value*> bases;
    std::map<int32_t, Value*> loaded;
    for (const Access& access : kernel_.accesses) {
      Value*& base = loaded[access.operand];
      if (base == nullptr) {
        base = b_.CreateLoad(b_.getPtrTy(), b_.CreateConstGEP1_64(b_.getPtrTy(), function_->getArg(0),
                                                                  static_cast<uint64_t>(access.operand)));
      }
      bases.push_back(base);
    }
    return bases;
  }

  // Every extent and stride that is not a constant is one parameter.
  void load_params() {
    for (const Quantity& extent : kernel_.extents) extents_.push_back(quantity(extent));
    for (const Access& access : kernel_.accesses) {
      strides_.emplace_back();
      for (const Quantity& stride : access.strides) strides_.back().push_back(quantity(stride));
    }
    for (const Quantity& size : kernel_.sizes) sizes_.push_back(quantity(size));
  }

  // Where each access starts: its operand's address, plus its offset.
  std::vector<Value*> offset_bases(std::vector<Value*> bases) {
    for (size_t k = 0; k < bases.size(); ++k) {
      const Access& access = kernel_.accesses[k];
      Value* offset = nullptr;
      for (const Quantity& part : access.offset) {
        offset = offset == nullptr ? quantity(part) : b_.CreateAdd(offset, quantity(part));
      }
      if (offset != nullptr) bases[k] = element(access, bases[k], offset);
    }
    return bases;
  }

  Value* element(const Access& access, Value* base, Value* elements) {
    const auto size = static_cast<int64_t>(dtype_size(access.dtype));
    return b_.CreateGEP(b_.getInt8Ty(), base, b_.CreateMul(elements, word(size)));
  }

  Value* quantity(const Quantity& q) {
    if (q.is_const()) return word(q.factor);
    for (size_t i = 0; i < out_.params.size(); ++i) {
      if (out_.params[i] == q) return params_[i];
    }
    out_.params.push_back(q);
    params_.push_back(b_.CreateLoad(
        b_.getInt64Ty(), b_.CreateConstGEP1_64(b_.getInt64Ty(), function_->getArg(1), out_.params.size() - 1)));
    return params_.back();
  }

  // The loop over rows. The multi-index of the outer axes counts up like an odometer.
  void emit_rows(const std::vector<Value*>& bases) {
    const size_t outer = kernel_.vector_axis();
    Value* begin = function_->getArg(2);
    Value* end = function_->getArg(3);
    std::vector<Value*> start(outer);
    Value* rest = begin;
    for (size_t i = outer; i-- > 0;) {
      start[i] = i == 0 ? rest : b_.CreateURem(rest, extents_[i]);
      if (i > 0) rest = b_.CreateUDiv(rest, extents_[i]);
    }
    BasicBlock* entry = b_.GetInsertBlock();
    BasicBlock* loop = block("row");
    BasicBlock* done = block("done");
    b_.CreateCondBr(b_.CreateICmpSLT(begin, end), loop, done);
    b_.SetInsertPoint(loop);
    PHINode* row = b_.CreatePHI(b_.getInt64Ty(), 2);
    row->addIncoming(begin, entry);
    std::vector<PHINode*> index;
    for (size_t i = 0; i < outer; ++i) {
      index.push_back(b_.CreatePHI(b_.getInt64Ty(), 2));
      index.back()->addIncoming(start[i], entry);
    }
    BodyEmitter::Row at;
    at.pointers = row_pointers(bases, index);
    for (const std::vector<Value*>& strides : strides_) {
      at.strides.push_back(strides.back());
      at.vector_strides.push_back(strides[kernel_.vector_axis()]);
    }
    at.index.assign(index.begin(), index.end());
    at.sizes = sizes_;
    at.size = extents_.back();
    at.begin = function_->getArg(4);
    at.end = function_->getArg(5);
    if (kernel_.lanes) {
      body_->emit_lanes(std::move(at));
    } else {
      body_->emit_row(std::move(at));
    }
    Value* next_row = b_.CreateAdd(row, word(1));
    Value* carry = word(1);
    std::vector<Value*> next(outer);
    for (size_t i = outer; i-- > 0;) {
      Value* up = b_.CreateAdd(index[i], carry);
      Value* wraps = b_.CreateICmpEQ(up, extents_[i]);
      next[i] = i == 0 ? up : b_.CreateSelect(wraps, word(0), up);
      carry = b_.CreateZExt(wraps, b_.getInt64Ty());
    }
    BasicBlock* latch = b_.GetInsertBlock();
    row->addIncoming(next_row, latch);
    for (size_t i = 0; i < outer; ++i) index[i]->addIncoming(next[i], latch);
    b_.CreateCondBr(b_.CreateICmpSLT(next_row, end), loop, done);
    b_.SetInsertPoint(done);
    b_.CreateRetVoid();
  }

  std::vector<Value*> row_pointers(const std::vector<Value*>& bases, const std::vector<PHINode*>& index) {
    std::vector<Value*> pointers;
    for (size_t k = 0; k < bases.size(); ++k) {
      Value* offset = nullptr;
      for (size_t i = 0; i < index.size(); ++i) {
        if (!kernel_.accesses[k].moves(i)) continue;
        Value* part = b_.CreateMul(index[i], strides_[k][i]);
        offset = offset == nullptr ? part : b_.CreateAdd(offset, part);
      }
      pointers.push_back(offset == nullptr ? bases[k] : element(kernel_.accesses[k], bases[k], offset));
    }
    return pointers;
  }

  const KernelIr& kernel_;
  llvm::LLVMContext& context_;
  llvm::IRBuilder<> b_;
  CpuCode& out_;
  llvm::Function* function_ = nullptr;
  std::unique_ptr<BodyEmitter> body_;
  std::vector<Value*> params_;
  std::vector<Value*> extents_;
  std::vector<std::vector<Value*>> strides_;
  std::vector<Value*> sizes_;
};

}  // namespace

CpuCode emit_cpu_code(const KernelIr& kernel) {
  llvm::LLVMContext context;
  llvm::Module module("deepjit", context);
  CpuCode out;
  FunctionEmitter(kernel, module, out).run();
  std::string fault;
  llvm::raw_string_ostream stream(fault);
  if (llvm::verifyModule(module, &stream)) throw Error(Code::INTERNAL, "bad LLVM IR: " + stream.str());
  compile_flat(module, out);
  return out;
}

Refusal why_not_emit(const KernelIr& kernel) {
  for (const Inst& inst : kernel.insts) {
    if (is_transcendental(inst.op) && inst.type != DType::FLOAT32) {
      return {Why::TYPE_NOT_GENERATED,
              std::string(opcode_name(inst.op)) + " of " + std::string(dtype_name(inst.type)) + " is not generated"};
    }
  }
  for (const Access& access : kernel.accesses) {
    if (access.dtype == DType::FLOAT16 && cpu_isa() == "x86-64") {
      return {Why::DEVICE_LIMIT, "this CPU does not convert float16"};
    }
  }
  return {};
}

std::string cpu_emitter_version() { return std::string("2,llvm ") + LLVM_VERSION_STRING; }

}  // namespace deepjit
