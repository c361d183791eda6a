// A GPU that computes nothing: it keeps a record of every call, and host memory stands behind its own, so that data
// makes the round trip. With it the whole way from engine to launch is tested on machines without a GPU.
#pragma once

#include <atomic>
#include <mutex>

#include "device/cpu/cpu_device.h"

namespace deepjit::device {

constexpr int kNullArchitecture = 90;

class NullDevice final : public CpuDevice {
 public:
  explicit NullDevice(int architecture = kNullArchitecture);

  // A call, and of a launch the function's name.
  struct Record {
    Call call;
    std::string function;
  };
  // The calls since the last take.
  std::vector<Record> take_calls();
  // Memory that is allocated now: device and host blocks.
  size_t blocks() const { return blocks_; }
  size_t modules_loaded() const { return modules_; }

  void* allocate(size_t bytes) override;
  void free(void* memory) noexcept override;
  void* allocate_host(size_t bytes) override;
  void free_host(void* memory) noexcept override;
  std::shared_ptr<Module> load(std::span<const uint8_t> code) override;
  void perform(const Call& call) override;

 private:
  mutable std::mutex mutex_;
  std::vector<Record> calls_;
  std::atomic<size_t> blocks_{0};
  std::atomic<size_t> modules_{0};
};

}  // namespace deepjit::device
