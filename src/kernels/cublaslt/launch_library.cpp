#include <memory>

#include "base/cuda_library.h"
#include "base/error.h"
#include "kernels/cublaslt/library.h"

namespace deepjit::cublaslt {

namespace {

bool load(void* handle, Library& out) {
  bool complete = find_function(handle, out.number, "cublasLtGetVersion") &&
                  find_function(handle, out.status_name, "cublasLtGetStatusName");
#define X(member, symbol, parameters) complete = complete && find_function(handle, out.member, #symbol);
  DEEPJIT_CUBLASLT_TABLE(X)
#undef X
  if (complete) out.version = library_version(out.number());
  return complete;
}

std::unique_ptr<Library> search() {
  auto library = std::make_unique<Library>();
  const auto accept = [&](void* handle, const std::string& path) {
    library->file = path;
    return load(handle, *library);
  };
  return open_cuda_library(cublaslt_files(), accept) == nullptr ? nullptr : std::move(library);
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
  throw Error(status == kAllocFailed ? Code::DEVICE_OOM : Code::INTERNAL,
              std::string("cuBLASLt cannot ") + what + ": " + library().status_name(status));
}

}  // namespace deepjit::cublaslt
