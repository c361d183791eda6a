#include "codegen/llvm/emit_llvm_target.h"

#include <llvm/IR/LegacyPassManager.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Object/ELFObjectFile.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Transforms/InstCombine/InstCombine.h>
#include <llvm/Transforms/Scalar.h>

#include <cstring>
#include <mutex>

#include "base/cpu.h"
#include "base/error.h"

namespace deepjit {

namespace {

std::string features_of(const std::string& isa) {
  if (isa == "x86-64") return "";
  const std::string avx2 = "+avx2,+fma,+f16c,+bmi,+bmi2";
  return isa == "avx2" ? avx2 : avx2 + ",+avx512f,+avx512vl,+avx512bw,+avx512dq,-prefer-256-bit";
}

std::unique_ptr<llvm::TargetMachine> make_machine() {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
  });
  const std::string triple = "x86_64-pc-linux-gnu";
  std::string error;
  const llvm::Target* target = llvm::TargetRegistry::lookupTarget(triple, error);
  if (target == nullptr) throw Error(Code::INTERNAL, "LLVM has no x86-64 target: " + error);
  llvm::TargetOptions options;
  const std::string cpu = cpu_isa() == "avx512" ? "skylake-avx512" : "x86-64";
  return std::unique_ptr<llvm::TargetMachine>(target->createTargetMachine(triple, cpu, features_of(cpu_isa()), options,
                                                                          llvm::Reloc::PIC_, llvm::CodeModel::Small,
                                                                          llvm::CodeGenOptLevel::Default));
}

void optimise(llvm::Module& module) {
  llvm::legacy::FunctionPassManager passes(&module);
  passes.add(llvm::createEarlyCSEPass());
  passes.add(llvm::createInstructionCombiningPass());
  passes.add(llvm::createLICMPass());
  passes.add(llvm::createCFGSimplificationPass());
  passes.doInitialization();
  for (llvm::Function& f : module) {
    if (!f.isDeclaration()) passes.run(f);
  }
  passes.doFinalization();
}

// Lays the code and constant sections of an object one after another and resolves the references between them.
class Flattener {
 public:
  explicit Flattener(const llvm::object::ObjectFile& object) : object_(object) {}

  // The object's function, in what becomes the whole.
  int64_t add(const FlatObject& object) {
    align(kAlignment);
    const auto entry = static_cast<int64_t>(code_.size()) + object.entry;
    code_.insert(code_.end(), object.code.begin(), object.code.end());
    functions_[object.name] = static_cast<uint64_t>(entry);
    return entry;
  }

  void run(CpuCode& out) {
    for (const llvm::object::SectionRef& section : object_.sections()) {
      const auto* elf = static_cast<const llvm::object::ELFSectionRef*>(&section);
      if ((elf->getFlags() & llvm::ELF::SHF_ALLOC) == 0 || section.getSize() == 0 || is_unwind(section)) continue;
      if ((elf->getFlags() & llvm::ELF::SHF_WRITE) != 0)
        throw Error(Code::INTERNAL, "generated code with writable data");
      align(std::max<uint64_t>(section.getAlignment().value(), kAlignment));
      offsets_[section.getIndex()] = code_.size();
      const llvm::StringRef bytes = llvm::cantFail(section.getContents());
      code_.insert(code_.end(), bytes.begin(), bytes.end());
    }
    for (const llvm::object::SectionRef& section : object_.sections()) {
      const auto target = llvm::cantFail(section.getRelocatedSection());
      if (target == object_.section_end() || offsets_.count(target->getIndex()) == 0) continue;
      for (const llvm::object::RelocationRef& relocation : section.relocations()) {
        apply(relocation, offsets_.at(target->getIndex()));
      }
    }
    for (const llvm::object::SymbolRef& symbol : object_.symbols()) {
      if (llvm::cantFail(symbol.getName()) == "kernel") out.entry = static_cast<uint32_t>(address(symbol));
    }
    out.code = std::move(code_);
  }

 private:
  static bool is_unwind(const llvm::object::SectionRef& section) {
    return llvm::cantFail(section.getName()).starts_with(".eh_frame");
  }

  static constexpr uint64_t kAlignment = 64;

  void align(uint64_t alignment) { code_.resize((code_.size() + alignment - 1) / alignment * alignment); }

  uint64_t address(const llvm::object::SymbolRef& symbol) const {
    const auto function = functions_.find(llvm::cantFail(symbol.getName()).str());
    if (function != functions_.end()) return function->second;
    const auto section = llvm::cantFail(symbol.getSection());
    if (section == object_.section_end() || offsets_.count(section->getIndex()) == 0) {
      throw Error(Code::INTERNAL, "generated code calls " + llvm::cantFail(symbol.getName()).str());
    }
    return offsets_.at(section->getIndex()) + llvm::cantFail(symbol.getValue());
  }

  void apply(const llvm::object::RelocationRef& relocation, uint64_t base) {
    const uint64_t type = relocation.getType();
    if (type != llvm::ELF::R_X86_64_PC32 && type != llvm::ELF::R_X86_64_PLT32) {
      throw Error(Code::INTERNAL, "generated code with relocation type " + std::to_string(type));
    }
    const int64_t addend = llvm::cantFail(llvm::object::ELFRelocationRef(relocation).getAddend());
    const uint64_t place = base + relocation.getOffset();
    const auto value = static_cast<int32_t>(static_cast<int64_t>(address(*relocation.getSymbol())) + addend -
                                            static_cast<int64_t>(place));
    std::memcpy(code_.data() + place, &value, sizeof(value));
  }

  const llvm::object::ObjectFile& object_;
  std::vector<uint8_t> code_;
  std::map<uint64_t, uint64_t> offsets_;       // of the kept sections
  std::map<std::string, uint64_t> functions_;  // of other objects
};

}  // namespace

llvm_math::Target math_target() { return {cpu_isa() != "x86-64", cpu_isa() == "avx512"}; }

int vector_width() { return cpu_isa() == "avx512" ? 16 : cpu_isa() == "avx2" ? 8 : 4; }

std::vector<int64_t> compile_flat(llvm::Module& module, CpuCode& out, const std::vector<FlatObject>& objects) {
  const auto machine = make_machine();
  module.setTargetTriple(machine->getTargetTriple().str());
  module.setDataLayout(machine->createDataLayout());
  optimise(module);
  llvm::SmallVector<char, 0> object;
  llvm::raw_svector_ostream stream(object);
  llvm::legacy::PassManager codegen;
  if (machine->addPassesToEmitFile(codegen, stream, nullptr, llvm::CodeGenFileType::ObjectFile)) {
    throw Error(Code::INTERNAL, "LLVM cannot write object code");
  }
  codegen.run(module);
  const llvm::MemoryBufferRef buffer(llvm::StringRef(object.data(), object.size()), "kernel");
  auto file = llvm::object::ObjectFile::createObjectFile(buffer);
  if (!file) throw Error(Code::INTERNAL, "LLVM made an object that cannot be read");
  Flattener flattener(**file);
  std::vector<int64_t> entries;
  for (const FlatObject& object : objects) entries.push_back(flattener.add(object));
  flattener.run(out);
  out.isa = cpu_isa();
  return entries;
}

}  // namespace deepjit
