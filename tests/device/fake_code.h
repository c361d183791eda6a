// CUDA text as code of the stand-in GPU: the host's compiler makes a library of it under
// tests/codegen/cuda_emulation.h.
//
// The "cubin" of the stand-in compiler (fake_nvrtc.cpp) is the text itself behind a line that says what it is and for
// which architecture: "// code of the stand-in GPU, sm_90". The
// library is made once for each text and kept: in $DEEPJIT_FAKE_GPU_CACHE, else in a folder for temporary files.
#pragma once

#include <string>

namespace fake_gpu {

constexpr const char* kMagic = "// code of the stand-in GPU, sm_";

// Runs a kernel: addresses of its arguments, blocks, threads of a block, bytes of shared memory. "" or what went wrong.
using Launch = const char* (*)(void**, int, int, long long, int);

// Where the library of this text is; empty, with the compiler's words in `log`, when the text does not compile.
std::string library_of(const std::string& text, std::string& log);

}  // namespace fake_gpu
