// Runs generated CUDA text without a GPU: many kernels are compiled by the host's compiler in one go.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "codegen/cuda/emit_cuda.h"
#include "kernels/kernel.h"
#include "kernels/nvrtc/launch_data.h"

namespace deepjit {

// What the tests compile for: all that deepjit names as its targets.
inline const std::vector<int> kCudaArchitectures = {75, 80, 86, 89, 90, 100, 120};

// Is NVRTC there for tests to use? Not under sanitizers, which would watch a library that is not ours.
bool has_nvrtc();

// Arguments' addresses, blocks, threads of a block, bytes of shared memory, whether threads run backwards; what is
// wrong, or "".
using EmulatedLaunch = const char* (*)(void**, int, int, long long, int);

class CudaOnCpu {
 public:
  CudaOnCpu();
  ~CudaOnCpu();
  CudaOnCpu(const CudaOnCpu&) = delete;
  CudaOnCpu& operator=(const CudaOnCpu&) = delete;

  // Takes a kernel and tells its name. Equal ones are compiled once.
  std::string add(const KernelIr& kernel, const CudaMapping& mapping);
  // The same for a tactic that the provider packed.
  std::string add(const Tactic& tactic);
  // Compiles all that was added, once. Throws Error with the compiler's words.
  void compile();
  // A kernel of its own memory, which runs in several ways - either order of threads, operands at either end of their
  // memory, with and without row buffers - and throws Error when they do not all give the same bits.
  std::unique_ptr<Kernel> make(const std::string& name, const StepShape& shape) const;

  // The kernel as it is launched, for whoever knows its arguments.
  std::string add_text(const std::string& name, const std::string& source) { return add(name, {source, {}}); }
  EmulatedLaunch entry(const std::string& name) const;

  // Compiles all kernels, or the chosen ones, by NVRTC for each architecture. False, with a note, where NVRTC is not
  // installed; throws Error for text that it refuses or warns about.
  bool check_by_nvrtc(const std::set<std::string>& chosen = {},
                      const std::vector<int>& architectures = kCudaArchitectures) const;
  const std::string& text(const std::string& name) const { return kernels_.at(name).source; }
  std::vector<std::string> names() const;

 private:
  struct Entry {
    std::string source;
    std::vector<nvrtc_gpu::ComboData::Part> parts;
    bool combo = false;
  };
  std::string add(const std::string& name, Entry entry);
  std::string all_text(const std::set<std::string>& chosen) const;

  std::map<std::string, Entry> kernels_;
  std::string folder_;
  void* library_ = nullptr;
};

}  // namespace deepjit
