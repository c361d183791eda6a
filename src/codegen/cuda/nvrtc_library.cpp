#include "codegen/cuda/nvrtc_library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <vector>

namespace deepjit::nvrtc {

namespace {

namespace fs = std::filesystem;

constexpr const char* kNames[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Where nvidia's wheels put their libraries below a folder of Python packages.
void add_wheels(std::vector<fs::path>& folders, const fs::path& packages) {
  folders.push_back(packages / "nvidia" / "cu13" / "lib");
  folders.push_back(packages / "nvidia" / "cuda_nvrtc" / "lib");
}

void add_environment(std::vector<fs::path>& folders, const std::string& prefix) {
  if (prefix.empty()) return;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(fs::path(prefix) / "lib", ignored)) {
    if (entry.path().filename().string().rfind("python3", 0) == 0) add_wheels(folders, entry.path() / "site-packages");
  }
}

// The folder of Python packages that holds this library, if it is a Python module.
void add_own_packages(std::vector<fs::path>& folders) {
  Dl_info info;
  if (dladdr(reinterpret_cast<void*>(&find_library), &info) == 0 || info.dli_fname == nullptr) return;
  for (fs::path folder = fs::path(info.dli_fname).parent_path(); folder.has_relative_path();
       folder = folder.parent_path()) {
    const std::string name = folder.filename().string();
    if (name == "site-packages" || name == "dist-packages") return add_wheels(folders, folder);
  }
}

void add_toolkit(std::vector<fs::path>& folders, const std::string& root) {
  if (root.empty()) return;
  for (const char* below : {"", "lib64", "lib"}) folders.push_back(fs::path(root) / below);
}

// In the order of preference.
std::vector<fs::path> places() {
  std::vector<fs::path> folders;
  add_toolkit(folders, environment("DEEPJIT_CUDA_PATH"));
  add_environment(folders, environment("DEEPJIT_CUDA_PATH"));
  add_own_packages(folders);
  add_environment(folders, environment("VIRTUAL_ENV"));
  for (const char* name : {"CUDA_PATH", "CUDA_HOME"}) add_toolkit(folders, environment(name));
  add_toolkit(folders, "/usr/local/cuda");
  std::vector<fs::path> files;
  std::error_code ignored;
  for (const fs::path& folder : folders) {
    for (const char* name : kNames) {
      if (fs::exists(folder / name, ignored)) files.push_back(folder / name);
    }
  }
  files.insert(files.end(), std::begin(kNames), std::end(kNames));  // by the linker's path
  return files;
}

template <typename Function>
bool find(void* handle, Function& function, const char* name) {
  function = reinterpret_cast<Function>(dlsym(handle, name));
  return function != nullptr;
}

bool load(const fs::path& file, Library& out) {
  void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return false;
  const bool complete =
      find(handle, out.version, "nvrtcVersion") && find(handle, out.error_string, "nvrtcGetErrorString") &&
      find(handle, out.create_program, "nvrtcCreateProgram") &&
      find(handle, out.destroy_program, "nvrtcDestroyProgram") &&
      find(handle, out.compile_program, "nvrtcCompileProgram") && find(handle, out.cubin_size, "nvrtcGetCUBINSize") &&
      find(handle, out.cubin, "nvrtcGetCUBIN") && find(handle, out.log_size, "nvrtcGetProgramLogSize") &&
      find(handle, out.log, "nvrtcGetProgramLog");
  if (!complete || out.version(&out.major, &out.minor) != 0) {
    dlclose(handle);
    return false;
  }
  Dl_info info;
  const bool known = dladdr(reinterpret_cast<void*>(out.version), &info) != 0 && info.dli_fname != nullptr;
  out.path = known ? info.dli_fname : file.string();
  return true;
}

std::unique_ptr<Library> search() {
  auto library = std::make_unique<Library>();
  for (const fs::path& file : places()) {
    if (load(file, *library)) return library;
  }
  return nullptr;
}

}  // namespace

const Library* find_library() {
  static const std::unique_ptr<Library> library = search();
  return library.get();
}

}  // namespace deepjit::nvrtc
