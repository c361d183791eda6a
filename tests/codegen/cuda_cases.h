// Cases of generated CUDA kernels: a kernel, how it is laid on threads, and at which shapes it runs.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <string>
#include <vector>

#include "cuda_run_util.h"

namespace deepjit {

struct CudaCase {
  std::string name;
  KernelIr kernel;
  CudaMapping mapping;
  std::vector<TensorDesc> inputs;
  std::vector<TensorDesc> outputs;
  double tolerance = 2e-6;  // relative to the value plus `scale`; integers agree exactly
  double scale = 1.2e-38;   // the smallest normal float
  bool exact = false;       // 16-bit floats agree exactly too: nothing before their rounding is inexact
  int64_t index_below = 0;  // integers are indices below this; 0: any bits
  bool hard = true;         // a third of the floats are special values
};

// Compiles all cases for the CPU in one go, runs them on data that is hard for them, and compares with the interpreter;
// compiles them by NVRTC for every architecture where NVRTC is there.
void check_cases(const std::vector<CudaCase>& cases);

}  // namespace deepjit
