#include "base/cuda_library.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

namespace deepjit {

namespace {

namespace fs = std::filesystem;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// The parts of "a:b".
std::vector<std::string> listed(const std::string& text) {
  std::vector<std::string> out;
  for (size_t start = 0; start < text.size();) {
    const size_t end = std::min(text.find(':', start), text.size());
    out.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  return out;
}

// The folders of one library, in order of preference.
class Places {
 public:
  explicit Places(const CudaLibraryName& name) : name_(name) {
    for (const std::string& folder : listed(environment("DEEPJIT_CUDA_PATH"))) {
      add_toolkit(folder);
      add_environment(folder);
    }
    add_own_packages();
    add_environment(environment("VIRTUAL_ENV"));
    for (const char* variable : {"CUDA_PATH", "CUDA_HOME"}) add_toolkit(environment(variable));
    add_toolkit("/usr/local/cuda");
  }

  std::vector<std::string> files() const {
    std::vector<std::string> out;
    std::error_code ignored;
    for (const fs::path& folder : folders_) {
      for (const std::string& file : name_.files) {
        if (fs::exists(folder / file, ignored)) out.push_back((folder / file).string());
      }
    }
    out.insert(out.end(), name_.files.begin(), name_.files.end());  // by the linker's path
    return out;
  }

 private:
  // Where NVIDIA's wheels put their libraries below a folder of Python packages.
  void add_wheels(const fs::path& packages) {
    for (const std::string& wheel : name_.wheels) folders_.push_back(packages / "nvidia" / wheel / "lib");
  }

  void add_environment(const std::string& prefix) {
    if (prefix.empty()) return;
    std::error_code ignored;
    for (const fs::directory_entry& entry : fs::directory_iterator(fs::path(prefix) / "lib", ignored)) {
      if (entry.path().filename().string().rfind("python3", 0) == 0) add_wheels(entry.path() / "site-packages");
    }
  }

  // The folder of Python packages that holds this library, if it is a Python module.
  void add_own_packages() {
    Dl_info info;
    if (dladdr(reinterpret_cast<void*>(&open_cuda_library), &info) == 0 || info.dli_fname == nullptr) return;
    for (fs::path folder = fs::path(info.dli_fname).parent_path(); folder.has_relative_path();
         folder = folder.parent_path()) {
      const std::string name = folder.filename().string();
      if (name == "site-packages" || name == "dist-packages") return add_wheels(folder);
    }
  }

  void add_toolkit(const std::string& root) {
    if (root.empty()) return;
    for (const char* below : {"", "lib64", "lib"}) folders_.push_back(fs::path(root) / below);
  }

  const CudaLibraryName& name_;
  std::vector<fs::path> folders_;
};

std::string path_of(void* handle, const std::string& file) {
  struct link_map* map = nullptr;
  const bool known = dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr && map->l_name != nullptr;
  return known && *map->l_name != '\0' ? map->l_name : file;
}

}  // namespace

CudaLibraryName nvrtc_files() { return {{"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"}, {"cu13", "cuda_nvrtc"}}; }
CudaLibraryName cublaslt_files() { return {{"libcublasLt.so.13", "libcublasLt.so.12"}, {"cu13", "cublas"}}; }
CudaLibraryName cudnn_files() { return {{"libcudnn.so.9"}, {"cudnn"}}; }
// A toolkit has it in a folder of its own.
CudaLibraryName cupti_files() {
  return {{"libcupti.so.13", "libcupti.so.12", "libcupti.so", "../extras/CUPTI/lib64/libcupti.so"},
          {"cu13", "cuda_cupti"}};
}

void* open_cuda_library(const CudaLibraryName& name, const AcceptLibrary& accept) {
  for (const std::string& file : Places(name).files()) {
    void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) continue;
    if (accept(handle, path_of(handle, file))) return handle;
    dlclose(handle);
  }
  return nullptr;
}

std::string library_version(size_t number) {
  return std::to_string(number / 10000) + "." + std::to_string(number / 100 % 100) + "." + std::to_string(number % 100);
}

void* find_symbol(void* handle, const char* name) { return dlsym(handle, name); }

}  // namespace deepjit
