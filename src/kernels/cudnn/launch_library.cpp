#include <memory>

#include "base/cuda_library.h"
#include "base/error.h"
#include "kernels/cudnn/library.h"

namespace deepjit::cudnn {

namespace {

bool load(void* handle, Library& out) {
  bool complete = find_function(handle, out.number, "cudnnGetVersion") &&
                  find_function(handle, out.status_name, "cudnnGetErrorString") &&
                  find_function(handle, out.last_error, "cudnnGetLastErrorString");
#define X(member, symbol, parameters) complete = complete && find_function(handle, out.member, #symbol);
  DEEPJIT_CUDNN_TABLE(X)
#undef X
  if (complete) out.version = library_version(out.number());
  return complete;
}

// libcudnn.so.9 opens its other parts beside itself, NVRTC and cuBLASLt by name when it needs them: it then gets those
// that are open already.
std::unique_ptr<Library> search() {
  auto library = std::make_unique<Library>();
  const auto accept = [&](void* handle, const std::string& path) {
    library->file = path;
    if (!load(handle, *library)) return false;
    for (const CudaLibraryName& needed : {nvrtc_files(), cublaslt_files()}) {
      open_cuda_library(needed, [](void*, const std::string&) { return true; });
    }
    return true;
  };
  return open_cuda_library(cudnn_files(), accept) == nullptr ? nullptr : std::move(library);
}

}  // namespace

const Library* find_library() {
  static const std::unique_ptr<Library> library = search();
  return library.get();
}

const Library& library() {
  const Library* found = find_library();
  if (found == nullptr) throw Error(Code::LIBRARY_MISSING, kMissing, kInstall);
  return *found;
}

void check(Status status, const char* what) {
  if (status == kSuccess) return;
  const bool memory = status == kHostAllocationFailed || status == kDeviceAllocationFailed;
  char words[512] = "";
  library().last_error(words, sizeof words);
  words[sizeof words - 1] = '\0';
  std::string text = std::string("cuDNN cannot ") + what + ": " + library().status_name(status);
  if (words[0] != '\0') text += std::string(", ") + words;
  throw Error(memory ? Code::DEVICE_OOM : Code::INTERNAL, text);
}

}  // namespace deepjit::cudnn
