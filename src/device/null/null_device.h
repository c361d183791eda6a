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
  // Whether its streams refuse to capture, as they do on a GPU where a library does what no graph can hold.
  void refuse_captures(bool on) { refuses_captures_ = on; }

  std::shared_ptr<Module> load(std::span<const uint8_t> code) override;
  void perform(const Call& call) override;

 private:
  mutable std::mutex mutex_;
  std::vector<Record> calls_;
  std::atomic<size_t> modules_{0};
  std::atomic<bool> refuses_captures_{false};
};

}  // namespace deepjit::device
