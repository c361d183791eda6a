// CUDA text to a cubin, by NVIDIA's run-time compiler. Needs no GPU.
//
// The library is found (base/cuda_library.h) and loaded at the first use. Calls may come from several threads at once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace deepjit::nvrtc {

// "13.0", or "" where the library is not installed.
std::string version();
// Where it was found; "" where it is not installed.
std::string library_path();

struct Cubin {
  std::vector<uint8_t> bytes;
  std::string log;  // the compiler's warnings
};

// `architecture` is such as 90 for sm_90. Products and sums are not contracted, so that results are those of the steps.
// Throws Error(LIBRARY_MISSING) saying what to install, Error(ARGUMENT) for an architecture that the library does not
// know, Error(INTERNAL) with the compiler's words for text that it refuses.
Cubin compile(const std::string& source, const std::string& name, int architecture);

}  // namespace deepjit::nvrtc
