// Libraries of CUDA (NVRTC, cuBLASLt, cuDNN, CUPTI), found at run time by one search: so one program serves machines
// with and without them, and nothing of the toolkit is needed to build it.
//
// Places, in order of preference: the folders that DEEPJIT_CUDA_PATH lists, with colons between (toolkits, Python
// environments with NVIDIA's wheels, or just folders with libraries), the Python packages beside this library,
// VIRTUAL_ENV, CUDA_PATH and CUDA_HOME, /usr/local/cuda, and last what the system's linker finds.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace deepjit {

struct CudaLibraryName {
  std::vector<std::string> files;   // in order of preference: "libnvrtc.so.13"
  std::vector<std::string> wheels;  // folders that hold it below site-packages/nvidia: "cu13", "cuda_nvrtc"
};

CudaLibraryName nvrtc_files();
CudaLibraryName cublaslt_files();
CudaLibraryName cudnn_files();
CudaLibraryName cupti_files();

// Opens files in turn until `accept` takes one, given its handle and its path; that one stays open for good, and its
// handle is returned. nullptr where there is none.
using AcceptLibrary = std::function<bool(void* handle, const std::string& path)>;
void* open_cuda_library(const CudaLibraryName& name, const AcceptLibrary& accept);

// "9.19.0" of 91900, which is how the libraries number their versions. (Up to version 12 cuBLASLt wrote 120100.)
std::string library_version(size_t number);

// The symbol of an open library, or nullptr.
void* find_symbol(void* handle, const char* name);

// Sets `function` to the symbol; false where there is none.
template <typename Function>
bool find_function(void* handle, Function& function, const char* name) {
  function = reinterpret_cast<Function>(find_symbol(handle, name));
  return function != nullptr;
}

}  // namespace deepjit
