#include "codegen/cuda/nvrtc_library.h"

#include <memory>

#include "base/cuda_library.h"

namespace deepjit::nvrtc {

namespace {

bool load(void* handle, Library& out) {
  const bool complete = find_function(handle, out.version, "nvrtcVersion") &&
                        find_function(handle, out.error_string, "nvrtcGetErrorString") &&
                        find_function(handle, out.create_program, "nvrtcCreateProgram") &&
                        find_function(handle, out.destroy_program, "nvrtcDestroyProgram") &&
                        find_function(handle, out.compile_program, "nvrtcCompileProgram") &&
                        find_function(handle, out.cubin_size, "nvrtcGetCUBINSize") &&
                        find_function(handle, out.cubin, "nvrtcGetCUBIN") &&
                        find_function(handle, out.log_size, "nvrtcGetProgramLogSize") &&
                        find_function(handle, out.log, "nvrtcGetProgramLog");
  return complete && out.version(&out.major, &out.minor) == 0;
}

std::unique_ptr<Library> search() {
  auto library = std::make_unique<Library>();
  const auto accept = [&](void* handle, const std::string& path) {
    library->path = path;
    return load(handle, *library);
  };
  return open_cuda_library(nvrtc_files(), accept) == nullptr ? nullptr : std::move(library);
}

}  // namespace

const Library* find_library() {
  static const std::unique_ptr<Library> library = search();
  return library.get();
}

}  // namespace deepjit::nvrtc
