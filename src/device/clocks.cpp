#include "device/clocks.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>

#include "device/cuda/driver.h"

namespace deepjit::device {

namespace {

using Handle = void*;

// Numbers of the library's enums.
constexpr int kSm = 1, kMemory = 2, kOfGpu = 0;
constexpr std::pair<unsigned long long, const char*> kReasons[] = {
    {0x4, "power limit"},          {0x8, "hardware slowdown"},          {0x10, "synchronized boost"},
    {0x20, "temperature"},         {0x40, "hardware thermal slowdown"}, {0x80, "power brake"},
    {0x100, "display clock limit"}};

struct Management {
  int (*init)() = nullptr;
  int (*by_bus)(const char*, Handle*) = nullptr;
  int (*clock)(Handle, int, unsigned*) = nullptr;
  int (*temperature)(Handle, int, unsigned*) = nullptr;
  int (*reasons)(Handle, unsigned long long*) = nullptr;
  bool ready = false;
};

void* open_library() {
  const std::filesystem::path driver = cuda::driver().file;
  const std::filesystem::path beside = driver.parent_path() / "libnvidia-ml.so.1";
  if (void* library = dlopen(beside.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  return dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
}

Management load() {
  Management m;
  void* library = open_library();
  if (library == nullptr) return m;
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    return function != nullptr;
  };
  m.ready = find(m.init, "nvmlInit_v2") && find(m.by_bus, "nvmlDeviceGetHandleByPciBusId_v2") &&
            find(m.clock, "nvmlDeviceGetClockInfo") && m.init() == 0;
  find(m.temperature, "nvmlDeviceGetTemperature");
  find(m.reasons, "nvmlDeviceGetCurrentClocksThrottleReasons");
  return m;
}

// The driver's number of a device says nothing to the management library; its place on the bus does.
std::string bus_of(int number) {
  void* driver = dlopen(cuda::driver().file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  if (driver == nullptr) return "";
  const auto bus = reinterpret_cast<int (*)(char*, int, int)>(dlsym(driver, "cuDeviceGetPCIBusId"));
  char text[32] = {};
  const bool known = bus != nullptr && bus(text, sizeof text, number) == 0;
  dlclose(driver);
  return known ? text : "";
}

}  // namespace

std::optional<Clocks> gpu_clocks(const Device& device) {
  if (device.info().kind != "cuda") return std::nullopt;
  static const Management m = load();
  if (!m.ready) return std::nullopt;
  const size_t colon = device.info().name.find(':');
  const std::string bus = bus_of(colon == std::string::npos ? 0 : std::atoi(device.info().name.c_str() + colon + 1));
  Handle handle = nullptr;
  if (bus.empty() || m.by_bus(bus.c_str(), &handle) != 0) return std::nullopt;
  Clocks clocks;
  unsigned value = 0;
  if (m.clock(handle, kSm, &value) == 0) clocks.sm_mhz = static_cast<int>(value);
  if (m.clock(handle, kMemory, &value) == 0) clocks.memory_mhz = static_cast<int>(value);
  if (m.temperature != nullptr && m.temperature(handle, kOfGpu, &value) == 0) clocks.celsius = static_cast<int>(value);
  unsigned long long mask = 0;
  if (m.reasons != nullptr && m.reasons(handle, &mask) == 0) {
    for (const auto& [bit, name] : kReasons) {
      if ((mask & bit) != 0) clocks.throttled.emplace_back(name);
    }
  }
  return clocks;
}

std::string to_string(const Clocks& clocks) {
  std::string text = std::to_string(clocks.sm_mhz) + " MHz, memory " + std::to_string(clocks.memory_mhz) + " MHz, " +
                     std::to_string(clocks.celsius) + " C";
  for (size_t i = 0; i < clocks.throttled.size(); ++i) {
    text += (i == 0 ? ", held back by " : ", ") + clocks.throttled[i];
  }
  return text;
}

}  // namespace deepjit::device
