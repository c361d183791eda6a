// The host as a device: copies and fills happen at once, graphs replay them. It loads no code: generated CPU kernels
// are functions of the process (kernels/llvm). The null device builds on it.
#pragma once

#include <map>
#include <mutex>

#include "device/device.h"

namespace deepjit::device {

// One call to a stream.
struct Call {
  enum class Kind {
    COPY_IN,
    COPY_OUT,
    COPY,
    FILL,
    LAUNCH,
    RECORD,
    WAIT,
    SYNCHRONIZE,
    CAPTURE,
    INSTANTIATE,
    UPDATE,
    GRAPH
  };
  Kind kind = Kind::COPY;
  void* to = nullptr;
  const void* from = nullptr;
  size_t bytes = 0;
  uint8_t value = 0;
  const Function* function = nullptr;
  Launch shape;
  const Event* event = nullptr;  // to record or to wait for
  std::vector<uint64_t> arguments;
  bool replayed = false;  // by a graph
};

class CpuDevice : public Device {
 public:
  CpuDevice();
  const Info& info() const override { return info_; }
  size_t free_bytes() const override;
  void* allocate(size_t bytes) override;
  void free(void* memory) noexcept override;
  void* allocate_host(size_t bytes) override;
  void free_host(void* memory) noexcept override;
  Where locate(const void* address) const override;
  std::unique_ptr<Stream> make_stream() override;
  std::unique_ptr<Stream> borrow_stream(void* handle) override;
  std::unique_ptr<Event> make_event() override;
  double elapsed_us(const Event& from, const Event& to) override;
  std::shared_ptr<Module> load(std::span<const uint8_t> code) override;

  // Runs one call; called in the order of each stream.
  virtual void perform(const Call& call);
  // Memory that is allocated now: device and host blocks, and the bytes asked for of one kind.
  size_t blocks() const;
  size_t allocated_bytes(Where where) const;

 protected:
  Info info_;

 private:
  struct Block {
    size_t bytes = 0;
    Where where = Where::HERE;
  };
  void* take(size_t bytes, Where where);
  void give_back(void* memory) noexcept;

  mutable std::mutex blocks_mutex_;
  std::map<const std::byte*, Block> blocks_;
};

}  // namespace deepjit::device
