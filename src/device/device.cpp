#include "device/device.h"

#include <map>
#include <mutex>

#include "base/error.h"
#include "device/cpu/cpu_device.h"
#include "device/cuda/cuda_device.h"
#include "device/null/null_device.h"

namespace deepjit::device {

namespace {

struct Name {
  std::string kind;
  int number = -1;
};

Name parse(const std::string& text) {
  const size_t colon = text.find(':');
  Name name{text.substr(0, colon), -1};
  bool known = name.kind == "cpu" || name.kind == "cuda" || name.kind == "null";
  if (known && colon != std::string::npos) {
    const std::string digits = text.substr(colon + 1);
    known = name.kind != "cpu" && !digits.empty() && digits.size() <= 4 &&
            digits.find_first_not_of("0123456789") == std::string::npos;
    if (known) name.number = std::stoi(digits);
  }
  if (!known)
    throw Error(Code::ARGUMENT, "there is no device \"" + text + "\"", "the devices are cpu, cuda and cuda:N");
  return name;
}

std::shared_ptr<Device> make(const Name& name) {
  if (name.kind == "cpu") return std::make_shared<CpuDevice>();
  if (name.kind == "null") return std::make_shared<NullDevice>(name.number < 0 ? kNullArchitecture : name.number);
  return make_cuda_device(std::max(name.number, 0));
}

}  // namespace

std::string kind_of(const std::string& name) { return parse(name).kind; }

std::shared_ptr<Device> open(const std::string& text) {
  static std::mutex mutex;
  static std::map<std::pair<std::string, int>, std::weak_ptr<Device>> opened;
  Name name = parse(text);
  if (name.kind == "cuda") name.number = std::max(name.number, 0);
  const std::lock_guard<std::mutex> lock(mutex);
  std::weak_ptr<Device>& slot = opened[{name.kind, name.number}];
  if (auto device = slot.lock()) return device;
  auto device = make(name);
  slot = device;
  return device;
}

RowMap Device::map_rows(const void*, int64_t, int64_t, int64_t, int64_t) const {
  throw Error(Code::INTERNAL, "a device of kind " + info().kind + " has no tensor copies");
}

std::shared_ptr<void> Device::keep(const std::string& key, const std::function<std::shared_ptr<void>()>& make) {
  const std::lock_guard<std::mutex> lock(kept_mutex_);
  std::shared_ptr<void>& slot = kept_[key];
  if (slot == nullptr) slot = make();
  return slot;
}

void Device::drop_kept() noexcept {
  const std::lock_guard<std::mutex> lock(kept_mutex_);
  kept_.clear();
}

void Device::leave_kept() noexcept {
  static std::vector<std::shared_ptr<void>>& left = *new std::vector<std::shared_ptr<void>>();
  const std::lock_guard<std::mutex> lock(kept_mutex_);
  for (auto& [key, value] : kept_) left.push_back(std::move(value));
  kept_.clear();
}

std::vector<Found> find_all() {
  std::vector<Found> all;
  all.push_back({"cpu", open("cpu"), ""});
  try {
    const int count = cuda_device_count();
    for (int i = 0; i < count; ++i) {
      const std::string name = "cuda:" + std::to_string(i);
      try {
        all.push_back({name, open(name), ""});
      } catch (const Error& e) {
        all.push_back({name, nullptr, e.message()});
      }
    }
  } catch (const Error& e) {
    all.push_back({"cuda", nullptr, e.message()});
  }
  return all;
}

void* Memory::ensure(size_t bytes) {
  if (data_ != nullptr && bytes <= bytes_) return data_;
  release();
  const size_t rounded = (bytes + 255) / 256 * 256 + 256;
  data_ = kind_ == Kind::DEVICE ? device_->allocate(rounded) : device_->allocate_host(rounded);
  bytes_ = rounded;
  return data_;
}

void Memory::release() noexcept {
  if (data_ == nullptr) return;
  if (kind_ == Kind::DEVICE)
    device_->free(data_);
  else
    device_->free_host(data_);
  data_ = nullptr;
  bytes_ = 0;
}

}  // namespace deepjit::device
