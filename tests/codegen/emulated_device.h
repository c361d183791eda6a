// A device whose kernels are CUDA text compiled for the CPU (CudaOnCpu): for run sides that launch by themselves.
#pragma once

#include <cstdlib>
#include <cstring>
#include <map>

#include "cuda_run_util.h"
#include "device/device.h"

namespace deepjit {

class EmulatedDevice final : public device::Device {
 public:
  explicit EmulatedDevice(const CudaOnCpu& kernels) : kernels_(kernels) {
    info_.name = info_.kind = "emulated";
    info_.architecture = 90;
    info_.processors = 4;
    info_.shared_bytes_per_block = 227 << 10;
  }

  // The order in which threads run.
  void set_backwards(bool backwards) { backwards_ = backwards; }

  const device::Info& info() const override { return info_; }
  size_t free_bytes() const override { return size_t{1} << 30; }
  void* allocate(size_t bytes) override { return std::aligned_alloc(256, (bytes + 255) / 256 * 256); }
  void free(void* memory) noexcept override { std::free(memory); }
  void* allocate_host(size_t bytes) override { return allocate(bytes); }
  void free_host(void* memory) noexcept override { free(memory); }
  std::unique_ptr<device::Stream> make_stream() override { return std::make_unique<Stream>(*this); }
  device::Where locate(const void*) const override { return device::Where::HERE; }
  std::unique_ptr<device::Stream> borrow_stream(void*) override { return make_stream(); }
  std::unique_ptr<device::Event> make_event() override { throw Error(Code::STATE, "no events here"); }
  double elapsed_us(const device::Event&, const device::Event&) override { return 0; }
  device::RowMap map_rows(const void* address, int64_t rows, int64_t columns, int64_t pitch,
                          int64_t box_rows) const override {
    device::RowMap map{reinterpret_cast<uint64_t>(address)};
    const int64_t numbers[] = {rows, columns, pitch, box_rows};
    std::copy(std::begin(numbers), std::end(numbers), map.begin() + 1);
    return map;
  }
  std::shared_ptr<device::Module> load(std::span<const uint8_t>) override { return std::make_shared<Module>(kernels_); }

 private:
  struct Function final : device::Function {
    explicit Function(EmulatedLaunch l) : launch(l) {}
    int blocks_per_processor(uint32_t, size_t) const override { return 2; }
    EmulatedLaunch launch;
  };

  class Module final : public device::Module {
   public:
    explicit Module(const CudaOnCpu& kernels) : kernels_(kernels) {}
    const device::Function& function(const std::string& name) override {
      return functions_.try_emplace(name, kernels_.entry(name)).first->second;
    }

   private:
    const CudaOnCpu& kernels_;
    std::map<std::string, Function> functions_;
  };

  class Stream final : public device::Stream {
   public:
    explicit Stream(const EmulatedDevice& device) : device_(device) {}
    void copy_in(void* to, const void* from, size_t bytes) override { std::memcpy(to, from, bytes); }
    void copy_out(void* to, const void* from, size_t bytes) override { std::memcpy(to, from, bytes); }
    void copy(void* to, const void* from, size_t bytes) override { std::memcpy(to, from, bytes); }
    void fill(void* to, uint8_t value, size_t bytes) override { std::memset(to, value, bytes); }
    void launch(const device::Function& function, const device::Launch& shape,
                std::span<const uint64_t> arguments) override {
      std::vector<void*> pointers;
      const size_t count = shape.arguments_in(arguments);
      for (size_t i = 0; i < count; ++i) pointers.push_back(const_cast<uint64_t*>(&arguments[i]));
      const char* fault = static_cast<const Function&>(function).launch(
          pointers.data(), static_cast<int>(shape.blocks), static_cast<int>(shape.threads),
          static_cast<long long>(shape.shared_bytes), device_.backwards_ ? 1 : 0);
      if (*fault != 0) throw Error(Code::INTERNAL, fault);
    }
    void record(device::Event&) override {}
    void synchronize() override {}
    void begin_capture() override { throw Error(Code::STATE, "no graphs here"); }
    std::unique_ptr<device::Recording> end_recording() override { return nullptr; }
    void wait(const device::Event&) override {}
    void* handle() const override { return nullptr; }
    void launch(const device::Graph&) override {}

   private:
    const EmulatedDevice& device_;
  };

  const CudaOnCpu& kernels_;
  device::Info info_;
  bool backwards_ = false;
};

}  // namespace deepjit
