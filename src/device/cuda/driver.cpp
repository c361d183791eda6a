#include "device/cuda/driver.h"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <mutex>

#include "base/error.h"

namespace deepjit::device::cuda {

namespace {

constexpr int kOldestDriver = 12000;  // CUDA 12.0: all functions of the table, and cubins of NVRTC 12

void* open_library(std::string& tried) {
  if (const char* given = std::getenv("DEEPJIT_CUDA_DRIVER"); given != nullptr && *given != '\0') {
    tried = given;
    return dlopen(given, RTLD_NOW | RTLD_LOCAL);
  }
  for (const char* file :
       {"libcuda.so.1", "/usr/local/nvidia/lib64/libcuda.so.1", "/usr/local/nvidia/lib/libcuda.so.1",
        "/usr/lib/x86_64-linux-gnu/libcuda.so.1", "/usr/lib64/libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1"}) {
    if (void* library = dlopen(file, RTLD_NOW | RTLD_LOCAL)) return library;
  }
  tried = "libcuda.so.1";
  return nullptr;
}

// Leaves the library open for the life of the process: the driver keeps threads and exit handlers.
Driver load() {
  std::string tried;
  void* library = open_library(tried);
  if (library == nullptr) {
    throw Error(Code::LIBRARY_MISSING, "the CUDA driver " + tried + " is not installed",
                "install NVIDIA's driver on a machine with a GPU, or use --device cpu");
  }
  Driver d;
  struct link_map* map = nullptr;
  if (dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr) d.file = map->l_name;
  const auto find = [&](const char* symbol) {
    void* address = dlsym(library, symbol);
    if (address == nullptr) {
      throw Error(Code::DRIVER_MISMATCH, "the CUDA driver " + d.file + " has no " + symbol,
                  "install a driver of CUDA 12.0 or newer");
    }
    return address;
  };
#define X(member, symbol, parameters) d.member = reinterpret_cast<Result(*) parameters>(find(#symbol));
  DEEPJIT_CUDA_DRIVER_TABLE(X)
#undef X
  return d;
}

Driver load_and_start() {
  Driver d = load();
  const Result result = d.init(0);
  if (result == kSuccess) d.driver_version(&d.version);
  if (result != kSuccess) {
    const char* name = nullptr;
    d.error_name(result, &name);
    const std::string text = std::string("the CUDA driver does not start: ") + (name ? name : "unknown error");
    constexpr Result kNoDevice = 100, kDriverMismatch = 803, kCompatNotSupported = 804;
    if (result == kNoDevice) throw Error(Code::DEVICE_MISSING, "this machine has no CUDA device", "use --device cpu");
    const bool mismatch = result == kDriverMismatch || result == kCompatNotSupported;
    throw Error(mismatch ? Code::DRIVER_MISMATCH : Code::DEVICE_LOST, text, "nvidia-smi may say more");
  }
  if (d.version < kOldestDriver) {
    throw Error(
        Code::DRIVER_MISMATCH,
        "the CUDA driver is of CUDA " + std::to_string(d.version / 1000) + "." + std::to_string(d.version % 1000 / 10),
        "install a driver of CUDA 12.0 or newer");
  }
  return d;
}

Code code_of(Result result) {
  switch (result) {
    case 2:  // out of memory
      return Code::DEVICE_OOM;
    case 100:  // no device
    case 101:  // invalid device
      return Code::DEVICE_MISSING;
    case 200:  // invalid image
    case 209:  // no binary for this GPU
    case 218:  // invalid PTX
    case 222:  // unsupported PTX version
    case 300:  // invalid source
      return Code::ENGINE_INCOMPATIBLE;
    case 500:  // symbol not found
      return Code::ENGINE_RANGE;
    case 35:   // insufficient driver
    case 803:  // driver mismatch
    case 804:  // compatibility mode
      return Code::DRIVER_MISMATCH;
    // Sticky: the context answers every later call with the same.
    case 4:    // deinitialized
    case 214:  // uncorrectable ECC error
    case 220:  // uncorrectable NVLink error
    case 700:  // illegal address
    case 702:  // launch timeout
    case 709:  // context destroyed
    case 710:  // device-side assert
    case 714:  // hardware stack error
    case 715:  // illegal instruction
    case 716:  // misaligned address
    case 717:  // invalid address space
    case 718:  // invalid program counter
    case 719:  // launch failed
      return Code::DEVICE_LOST;
    default:
      return Code::INTERNAL;
  }
}

}  // namespace

const Driver& driver() {
  static std::mutex mutex;
  static Driver loaded;
  static bool done = false;
  static pid_t process = 0;
  const std::lock_guard<std::mutex> lock(mutex);
  if (!done) {
    loaded = load_and_start();
    process = getpid();
    done = true;
  }
  if (process != getpid()) {
    throw Error(Code::AFTER_FORK, "CUDA was started before fork()", "use CUDA first in the child process");
  }
  return loaded;
}

std::string file_version() {
  std::error_code ignored;
  const std::string name = std::filesystem::canonical(driver().file, ignored).filename().string();
  constexpr const char* kBefore = "libcuda.so.";
  const std::string version = name.rfind(kBefore, 0) == 0 ? name.substr(std::strlen(kBefore)) : "";
  return version.find('.') == std::string::npos ? "" : version;
}

void check(Result result, const char* what) {
  if (result == kSuccess) return;
  const Driver& d = driver();
  const char* name = nullptr;
  const char* text = nullptr;
  d.error_name(result, &name);
  d.error_text(result, &text);
  const Code code = code_of(result);
  throw Error(code,
              std::string("CUDA cannot ") + what + ": " + (name ? name : std::to_string(result).c_str()) +
                  (text ? std::string(", ") + text : ""),
              code == Code::DEVICE_LOST ? "start the process again; nvidia-smi may say more" : "");
}

}  // namespace deepjit::device::cuda
