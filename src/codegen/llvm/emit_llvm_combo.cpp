#include "codegen/llvm/emit_llvm_combo.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Verifier.h>

#include "base/error.h"
#include "codegen/llvm/emit_llvm_target.h"

namespace deepjit {

namespace {

using llvm::BasicBlock;
using llvm::Value;

// The joint function: one call a part.
void emit_calls(llvm::Module& module, const std::vector<CompiledPart>& parts, const std::vector<FlatObject>& objects) {
  llvm::LLVMContext& context = module.getContext();
  llvm::IRBuilder<> b(context);
  llvm::Type* pointer = b.getPtrTy();
  llvm::Type* word = b.getInt64Ty();
  auto* type = llvm::FunctionType::get(b.getVoidTy(), {pointer, pointer, pointer}, false);
  auto* part_type = llvm::FunctionType::get(b.getVoidTy(), {pointer, pointer, word, word, word, word, pointer}, false);
  auto* function = llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage, "kernel", module);
  function->setDoesNotThrow();
  b.SetInsertPoint(BasicBlock::Create(context, "entry", function));
  size_t operand = 0;
  size_t param = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    auto* callee = llvm::Function::Create(part_type, llvm::GlobalValue::ExternalLinkage, objects[i].name, module);
    callee->setDoesNotThrow();
    Value* params = b.CreateConstGEP1_64(word, function->getArg(1), param);
    auto size = [&](size_t after) {
      return b.CreateLoad(word, b.CreateConstGEP1_64(word, params, parts[i].params + after));
    };
    Value* rows = size(0);
    Value* columns = size(1);
    BasicBlock* run = BasicBlock::Create(context, "run", function);
    BasicBlock* next = BasicBlock::Create(context, "next", function);
    b.CreateCondBr(b.CreateICmpSGT(rows, b.getInt64(0)), run, next);
    b.SetInsertPoint(run);
    Value* operands = b.CreateConstGEP1_64(pointer, function->getArg(0), operand);
    b.CreateCall(callee, {operands, params, b.getInt64(0), rows, b.getInt64(0), columns, function->getArg(2)});
    b.CreateBr(next);
    b.SetInsertPoint(next);
    operand += parts[i].operands;
    param += parts[i].params + 2;
  }
  b.CreateRetVoid();
}

}  // namespace

ComboCode emit_cpu_combo(const std::vector<CompiledPart>& parts) {
  std::vector<FlatObject> objects;
  for (const CompiledPart& part : parts) {
    objects.push_back({"part" + std::to_string(objects.size()), part.code, part.entry});
  }
  llvm::LLVMContext context;
  llvm::Module module("deepjit", context);
  emit_calls(module, parts, objects);
  std::string fault;
  llvm::raw_string_ostream stream(fault);
  if (llvm::verifyModule(module, &stream)) throw Error(Code::INTERNAL, "bad LLVM IR: " + stream.str());
  CpuCode linked;
  ComboCode out;
  out.parts = compile_flat(module, linked, objects);
  out.entry = linked.entry;
  out.code = std::move(linked.code);
  return out;
}

}  // namespace deepjit
