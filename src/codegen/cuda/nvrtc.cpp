#include "codegen/cuda/nvrtc.h"

#include <fmt/format.h>

#include <memory>

#include "base/error.h"
#include "codegen/cuda/nvrtc_library.h"

namespace deepjit::nvrtc {

namespace {

// The program of one compilation.
class Program {
 public:
  Program(const Library& library, const std::string& source, const std::string& name) : library_(library) {
    check(library_.create_program(&program_, source.c_str(), name.c_str(), 0, nullptr, nullptr), "take a program");
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program() { library_.destroy_program(&program_); }

  Cubin compile(const std::string& name, int architecture) {
    // Every GPU of 9.0 has what sm_90a adds.
    const std::string target = fmt::format("--gpu-architecture=sm_{}{}", architecture, architecture == 90 ? "a" : "");
    // 177: a variable that is not used, which generated text may have.
    const char* options[] = {target.c_str(), "--fmad=false", "--std=c++17", "--diag-suppress=177", "-minimal"};
    // The option that leaves out what generated code never uses is newer than version 12.
    const int count = library_.major >= 13 ? 5 : 4;
    const int result = library_.compile_program(program_, count, options);
    if (result == kInvalidOption) {
      throw Error(Code::ARGUMENT, fmt::format("NVRTC {} does not compile for sm_{}", version(), architecture));
    }
    Cubin out;
    out.log = log();
    if (result != kSuccess) {
      throw Error(Code::INTERNAL, fmt::format("NVRTC refuses the generated kernel {} for sm_{}: {}", name, architecture,
                                              out.log.empty() ? library_.error_string(result) : out.log));
    }
    size_t size = 0;
    check(library_.cubin_size(program_, &size), "size a cubin");
    out.bytes.resize(size);
    check(library_.cubin(program_, reinterpret_cast<char*>(out.bytes.data())), "give a cubin");
    return out;
  }

 private:
  static constexpr int kSuccess = 0;
  static constexpr int kInvalidOption = 5;

  std::string log() const {
    size_t size = 0;
    if (library_.log_size(program_, &size) != kSuccess || size <= 1) return "";
    std::string text(size, '\0');
    if (library_.log(program_, text.data()) != kSuccess) return "";
    text.resize(size - 1);
    return text;
  }

  void check(int result, const char* what) const {
    if (result == kSuccess) return;
    throw Error(Code::INTERNAL, fmt::format("NVRTC cannot {}: {}", what, library_.error_string(result)));
  }

  const Library& library_;
  void* program_ = nullptr;
};

}  // namespace

std::string version() {
  const Library* library = find_library();
  return library == nullptr ? "" : fmt::format("{}.{}", library->major, library->minor);
}

std::string library_path() {
  const Library* library = find_library();
  return library == nullptr ? "" : library->path;
}

Cubin compile(const std::string& source, const std::string& name, int architecture) {
  const Library* library = find_library();
  if (library == nullptr) {
    throw Error(Code::LIBRARY_MISSING, "NVRTC (libnvrtc.so), which compiles CUDA kernels, is not installed",
                "pip install nvidia-cuda-nvrtc, install the CUDA toolkit 13, or set DEEPJIT_CUDA_PATH to its folder");
  }
  return Program(*library, source, name).compile(name, architecture);
}

}  // namespace deepjit::nvrtc
