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
  size_t modules_loaded() const { return modules_; }

  std::shared_ptr<Module> load(std::span<const uint8_t> code) override;
  void perform(const Call& call) override;

 private:
  mutable std::mutex mutex_;
  std::vector<Record> calls_;
  std::atomic<size_t> modules_{0};
};

}  // namespace deepjit::device
