// A stand-in for libnvrtc: its cubin is the CUDA text, for the stand-in driver (fake_cuda.cpp). So whole engines are
// built for a GPU and run, numbers included, on machines without one.
#include <cstdlib>
#include <cstring>
#include <string>

#include "fake_code.h"

namespace {

constexpr int kOk = 0, kInvalidProgram = 4, kInvalidOption = 5, kCompilation = 6;

struct Program {
  std::string text, cubin, log;
};

}  // namespace

extern "C" {

// No version of NVRTC, so that kernels in a shared cache are not mistaken for its own.
int nvrtcVersion(int* major, int* minor) { return *major = 13, *minor = 999, kOk; }
const char* nvrtcGetErrorString(int result) { return result == kOk ? "NVRTC_SUCCESS" : "told by the stand-in NVRTC"; }
int nvrtcCreateProgram(Program** program, const char* source, const char*, int, const char* const*,
                       const char* const*) {
  return *program = new Program{source, "", ""}, kOk;
}
int nvrtcDestroyProgram(Program** program) { return delete *program, *program = nullptr, kOk; }
int nvrtcCompileProgram(Program* program, int count, const char* const* options) {
  if (program == nullptr) return kInvalidProgram;
  const char* wanted = "--gpu-architecture=sm_";
  std::string architecture;
  for (int i = 0; i < count; ++i) {
    if (std::strncmp(options[i], wanted, std::strlen(wanted)) == 0) architecture = options[i] + std::strlen(wanted);
  }
  if (architecture.empty()) return kInvalidOption;
  if (fake_gpu::library_of(program->text, program->log).empty()) return kCompilation;
  program->cubin = fake_gpu::kMagic + architecture + "\n" + program->text;
  return kOk;
}
int nvrtcGetCUBINSize(Program* program, size_t* size) { return *size = program->cubin.size() + 1, kOk; }
int nvrtcGetCUBIN(Program* program, char* bytes) {
  std::memcpy(bytes, program->cubin.c_str(), program->cubin.size() + 1);
  return kOk;
}
int nvrtcGetProgramLogSize(Program* program, size_t* size) { return *size = program->log.size() + 1, kOk; }
int nvrtcGetProgramLog(Program* program, char* log) {
  std::memcpy(log, program->log.c_str(), program->log.size() + 1);
  return kOk;
}

}  // extern "C"
