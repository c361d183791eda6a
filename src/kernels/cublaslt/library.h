// cuBLASLt as far as it is used here, found at run time: own declarations, no headers of the toolkit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace deepjit::cublaslt {

using Status = int;
struct HandleObject;
struct DescObject;
struct LayoutObject;
struct PreferenceObject;
using Handle = HandleObject*;
using Desc = DescObject*;
using Layout = LayoutObject*;
using Preference = PreferenceObject*;

// Opaque, but of a size that belongs to the interface.
struct Algo {
  uint64_t words[8] = {};
};
struct Found {
  Algo algo;
  size_t workspace = 0;
  Status state = 0;
  float waves = 0;
  int reserved[4] = {};
};

// Numbers of the library's enums.
constexpr Status kSuccess = 0;
constexpr Status kAllocFailed = 3;
constexpr int kFloat32 = 0, kFloat16 = 2, kBfloat16 = 14;  // element types
constexpr int kCompute32 = 68, kComputeTf32 = 77;
constexpr int kDescTransA = 3, kDescTransB = 4, kDescEpilogue = 7, kDescBias = 8, kDescBiasType = 26;
constexpr int kLayoutBatch = 5, kLayoutBatchStride = 6;
constexpr int kPreferWorkspace = 1, kPreferReductions = 3, kPreferAlignment = 5;  // of A; B, C and D follow
constexpr int kEpilogueNone = 1, kEpilogueRelu = 2, kEpilogueBias = 4, kEpilogueGelu = 32;
// Partial sums of a split K go through memory in the compute type, and are added in a fixed order.
constexpr uint32_t kReduceInComputeType = 2;

// X(member, symbol, parameters); all return a status.
#define DEEPJIT_CUBLASLT_TABLE(X)                                                                                  \
  X(create, cublasLtCreate, (Handle*))                                                                             \
  X(destroy, cublasLtDestroy, (Handle))                                                                            \
  X(desc_create, cublasLtMatmulDescCreate, (Desc*, int, int))                                                      \
  X(desc_destroy, cublasLtMatmulDescDestroy, (Desc))                                                               \
  X(desc_set, cublasLtMatmulDescSetAttribute, (Desc, int, const void*, size_t))                                    \
  X(layout_create, cublasLtMatrixLayoutCreate, (Layout*, int, uint64_t, uint64_t, int64_t))                        \
  X(layout_destroy, cublasLtMatrixLayoutDestroy, (Layout))                                                         \
  X(layout_set, cublasLtMatrixLayoutSetAttribute, (Layout, int, const void*, size_t))                              \
  X(preference_create, cublasLtMatmulPreferenceCreate, (Preference*))                                              \
  X(preference_destroy, cublasLtMatmulPreferenceDestroy, (Preference))                                             \
  X(preference_set, cublasLtMatmulPreferenceSetAttribute, (Preference, int, const void*, size_t))                  \
  X(heuristic, cublasLtMatmulAlgoGetHeuristic,                                                                     \
    (Handle, Desc, Layout, Layout, Layout, Layout, Preference, int, Found*, int*))                                 \
  X(algo_init, cublasLtMatmulAlgoInit, (Handle, int, int, int, int, int, int, int, Algo*))                         \
  X(algo_set, cublasLtMatmulAlgoConfigSetAttribute, (Algo*, int, const void*, size_t))                             \
  X(algo_get, cublasLtMatmulAlgoConfigGetAttribute, (const Algo*, int, void*, size_t, size_t*))                    \
  X(algo_check, cublasLtMatmulAlgoCheck, (Handle, Desc, Layout, Layout, Layout, Layout, const Algo*, Found*))      \
  X(matmul, cublasLtMatmul,                                                                                        \
    (Handle, Desc, const void*, const void*, Layout, const void*, Layout, const void*, const void*, Layout, void*, \
     Layout, const Algo*, void*, size_t, void*))

struct Library {
#define X(member, symbol, parameters) Status(*member) parameters = nullptr;
  DEEPJIT_CUBLASLT_TABLE(X)
#undef X
  size_t (*number)() = nullptr;
  const char* (*status_name)(Status) = nullptr;
  std::string file;     // where it was found
  std::string version;  // "13.1.0"
};

// Loaded once a process, and never unloaded; nullptr where there is none.
const Library* find_library();
// LIBRARY_MISSING where there is none.
const Library& library();
// What to say, and what to do, where there is none.
constexpr const char* kMissing = "cuBLASLt is not installed (libcublasLt.so.13 or .12)";
constexpr const char* kInstall = "install it with pip install nvidia-cublas, or a CUDA toolkit";

// Throws the Error that `status` stands for; `what` says what was tried.
void check(Status status, const char* what);

}  // namespace deepjit::cublaslt
