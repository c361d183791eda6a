#include "device/null/null_device.h"

#include <algorithm>
#include <map>

#include "base/error.h"

namespace deepjit::device {

namespace {

constexpr size_t kSharedOfProcessor = size_t{228} << 10;
constexpr uint32_t kThreadsOfProcessor = 2048;

class NullFunction final : public Function {
 public:
  explicit NullFunction(std::string name) : name_(std::move(name)) {}
  const std::string& name() const { return name_; }
  int blocks_per_processor(uint32_t threads, size_t shared_bytes) const override {
    if (threads == 0 || threads > 1024 || shared_bytes + 1024 > kSharedOfProcessor) return 0;
    const uint32_t by_threads = kThreadsOfProcessor / ((threads + 31) / 32 * 32);
    const size_t by_shared = kSharedOfProcessor / (shared_bytes + 1024);
    return static_cast<int>(std::min({size_t{by_threads}, by_shared, size_t{32}}));
  }

 private:
  std::string name_;
};

// Has every function that it is asked for.
class NullModule final : public Module {
 public:
  const Function& function(const std::string& name) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    return functions_.try_emplace(name, name).first->second;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, NullFunction> functions_;
};

}  // namespace

NullDevice::NullDevice(int architecture) {
  info_.name = architecture == kNullArchitecture ? "null" : "null:" + std::to_string(architecture);
  info_.kind = "null";
  info_.model = "a GPU that computes nothing";
  info_.architecture = architecture;
  info_.processors = 132;
  info_.shared_bytes_per_block = size_t{227} << 10;
  info_.l2_bytes = size_t{50} << 20;
}

std::vector<NullDevice::Record> NullDevice::take_calls() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::move(calls_);
}

std::shared_ptr<Module> NullDevice::load(std::span<const uint8_t> code) {
  if (code.empty()) throw Error(Code::ENGINE_INCOMPATIBLE, info_.name + ": the code is empty");
  ++modules_;
  return std::make_shared<NullModule>();
}

void NullDevice::perform(const Call& call) {
  if (call.kind == Call::Kind::CAPTURE && refuses_captures_) {
    throw Error(Code::INTERNAL, info_.name + ": nothing is captured");
  }
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::string function;
    if (call.function != nullptr) function = static_cast<const NullFunction&>(*call.function).name();
    calls_.push_back({call, std::move(function)});
  }
  CpuDevice::perform(call);
}

}  // namespace deepjit::device
