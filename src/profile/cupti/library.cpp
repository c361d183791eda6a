#include "profile/cupti/library.h"

#include <memory>

#include "base/cuda_library.h"

namespace deepjit::profile::cupti {

namespace {

struct Search {
  std::unique_ptr<Library> found;
  std::string why;
};

Search search() {
  Search result;
  const auto accept = [&](void* handle, const std::string& path) {
    auto library = std::make_unique<Library>();
#define X(member, symbol, parameters) \
  if (!find_function(handle, library->member, #symbol)) return false;
    DEEPJIT_CUPTI_TABLE(X)
#undef X
    if (library->get_version(&library->version) != kSuccess) return false;
    if (!knows_version(library->version)) {
      result.why = "CUPTI's version " + std::to_string(library->version) + " (" + path + ") is not known here";
      return false;
    }
    library->path = path;
    result.found = std::move(library);
    return true;
  };
  open_cuda_library(cupti_files(), accept);
  if (result.found == nullptr && result.why.empty()) {
    result.why = "CUPTI (libcupti.so) is not installed: pip install nvidia-cuda-cupti, or set DEEPJIT_CUDA_PATH";
  }
  return result;
}

}  // namespace

bool knows_version(uint32_t version) {
  constexpr uint32_t k12_0 = 18, k12_9 = 28, k13_0 = 130'000, k13_5 = 130'599;
  return (version >= k12_0 && version <= k12_9) || (version >= k13_0 && version <= k13_5);
}

const Library* find_library(std::string& why) {
  static const Search done = search();
  why = done.why;
  return done.found.get();
}

}  // namespace deepjit::profile::cupti
