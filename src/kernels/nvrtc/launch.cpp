// The run side of generated GPU kernels: picks the code of the device, loads it once, and launches it. Needs no NVRTC.
#include <algorithm>
#include <map>
#include <mutex>
#include <string>

#include "device/device.h"
#include "kernels/launch_words.h"
#include "kernels/nvrtc/contract_data.h"
#include "kernels/nvrtc/contract_problem.h"
#include "kernels/nvrtc/launch_contract.h"
#include "kernels/nvrtc/launch_data.h"

namespace deepjit {

namespace nvrtc_gpu {

namespace {

struct Cubin {
  int architecture = 0;
  const Tensor* code = nullptr;
};

// A cubin runs on its own architecture and on later ones of the same generation: sm_80 on 8.6, not on 9.0.
Cubin pick(const Tactic& tactic, int architecture) {
  const std::string prefix = kCubinFormat;
  Cubin best;
  for (const PackedOperand& packed : tactic.packed) {
    if (packed.format.rfind(prefix, 0) != 0 || packed.format.size() > prefix.size() + 6) continue;
    const int own = std::atoi(packed.format.c_str() + prefix.size());
    if (own / 10 != architecture / 10 || own > architecture || own <= best.architecture) continue;
    best = {own, &packed.data};
  }
  return best;
}

std::string architectures_of(const Tactic& tactic) {
  const std::string prefix = "cubin ";
  std::string text;
  for (const PackedOperand& packed : tactic.packed) {
    if (packed.format.rfind(prefix, 0) != 0) continue;
    text += (text.empty() ? "" : ", ") + packed.format.substr(prefix.size());
  }
  return text.empty() ? "no device" : text;
}

// Equal code is loaded once a device.
std::shared_ptr<device::Module> module_of(device::Device& device, const Tensor& code) {
  static std::mutex mutex;
  static std::map<std::pair<const device::Device*, std::string>, std::weak_ptr<device::Module>> loaded;
  std::string bytes(code.as<char>(), static_cast<size_t>(code.bytes()));
  const std::lock_guard<std::mutex> lock(mutex);
  if (const auto entry = loaded.find({&device, bytes}); entry != loaded.end()) {
    if (auto found = entry->second.lock()) return found;
  }
  std::erase_if(loaded, [](const auto& entry) { return entry.second.expired(); });  // of engines that are gone
  auto made = device.load({code.as<uint8_t>(), static_cast<size_t>(code.bytes())});
  loaded.emplace(std::make_pair(&device, std::move(bytes)), made);
  return made;
}

// One kernel at concrete shapes: its arguments behind the operands, and how many blocks find work.
struct Work {
  std::vector<uint64_t> numbers;  // params, rows, columns
  int64_t useful = 0;             // blocks
  int64_t shared_bytes = 0;       // that its row buffers take
};

Work work_of(const StepShape& shape, const LaunchData& data) {
  Work work;
  for (const Quantity& q : data.params) work.numbers.push_back(static_cast<uint64_t>(value_of(q, shape)));
  int64_t rows = 1;
  for (size_t i = 0; i + 1 < data.extents.size(); ++i) rows = checked_mul(rows, value_of(data.extents[i], shape));
  const int64_t columns = value_of(data.extents.back(), shape);
  if (rows < 0 || columns < 0) throw Error(Code::ENGINE_RANGE, "a generated kernel has a negative size");
  work.numbers.push_back(static_cast<uint64_t>(rows));
  work.numbers.push_back(static_cast<uint64_t>(columns));
  work.useful = useful_blocks(data, rows, columns);
  if (data.row_buffers > 0 && work.useful > 0) work.shared_bytes = shared_bytes(data, columns);
  return work;
}

// As many blocks as find work, at most as many as the device holds at once: a block takes more work when done.
int64_t blocks_of(const Work& work, int resident, const device::Info& info) {
  if (resident == 0) throw Error(Code::ENGINE_INCOMPATIBLE, "a block of a generated kernel does not fit the device");
  return std::min<int64_t>(work.useful, int64_t{resident} * info.processors);
}

class GpuKernel final : public Kernel {
 public:
  GpuKernel(const StepShape& shape, std::shared_ptr<device::Module> module, const LaunchData& data)
      : module_(std::move(module)), function_(&module_->function(data.name)), inputs_(shape.inputs.size()) {
    outputs_ = shape.outputs.size();
    const Work work = work_of(shape, data);
    arguments_.resize(inputs_ + outputs_);
    arguments_.insert(arguments_.end(), work.numbers.begin(), work.numbers.end());
    if (data.checks) {
      const bool known = shape.program != nullptr && !shape.program->steps.empty();
      fault_ = arguments_.size();
      arguments_.insert(arguments_.end(),
                        {0, known ? 1 + static_cast<uint64_t>(shape.step - shape.program->steps.data()) : 1});
    }
    lay_out(shape.device->info(), data, work);
  }

  void run(const KernelArgs& args) override {
    if (launch_.blocks == 0) return;
    for (size_t i = 0; i < inputs_; ++i) arguments_[i] = reinterpret_cast<uint64_t>(args.inputs[i]);
    for (size_t i = 0; i < outputs_; ++i) arguments_[inputs_ + i] = reinterpret_cast<uint64_t>(args.outputs[i]);
    if (fault_ > 0) arguments_[fault_] = reinterpret_cast<uint64_t>(args.fault);
    args.stream->launch(*function_, launch_, arguments_);
  }

 private:
  void lay_out(const device::Info& info, const LaunchData& data, const Work& work) {
    launch_.threads = static_cast<uint32_t>(data.threads);
    launch_.shared_bytes = 0;
    int resident = 0;
    if (work.shared_bytes > 0 && static_cast<uint64_t>(work.shared_bytes) <= info.shared_bytes_per_block) {
      launch_.shared_bytes = static_cast<size_t>(work.shared_bytes);
      resident = function_->blocks_per_processor(launch_.threads, launch_.shared_bytes);
    }
    if (resident == 0) {  // nothing to keep, or no room for it: the kernel then computes it again
      launch_.shared_bytes = 0;
      resident = function_->blocks_per_processor(launch_.threads, 0);
    }
    launch_.blocks = static_cast<uint32_t>(blocks_of(work, resident, info));
  }

  std::shared_ptr<device::Module> module_;
  const device::Function* function_;
  size_t inputs_;
  size_t outputs_ = 0;
  size_t fault_ = 0;                 // which argument it is; 0: none
  std::vector<uint64_t> arguments_;  // addresses, params, rows, columns, fault and its number
  device::Launch launch_;
};

// Several kernels side by side in one launch.
class ComboKernel final : public Kernel {
 public:
  ComboKernel(const StepShape& shape, std::shared_ptr<device::Module> module, const ComboData& data)
      : module_(std::move(module)), function_(&module_->function(data.name)), inputs_(shape.inputs.size()) {
    launch_.threads = static_cast<uint32_t>(data.parts.front().launch.threads);
    const int resident = function_->blocks_per_processor(launch_.threads, 0);
    std::vector<uint64_t> blocks;
    uint64_t all = 0;
    for (const ComboData::Part& part : data.parts) {
      const StepShape& step = part.at.step_of(shape);
      for (int64_t operand : part.at.operands) {
        sources_.emplace_back(arguments_.size(), static_cast<size_t>(operand));
        arguments_.push_back(0);
      }
      const Work work = work_of(step, part.launch);
      arguments_.insert(arguments_.end(), work.numbers.begin(), work.numbers.end());
      blocks.push_back(static_cast<uint64_t>(blocks_of(work, resident, shape.device->info())));
      all += blocks.back();
    }
    arguments_.insert(arguments_.end(), blocks.begin(), blocks.end());
    launch_.blocks = static_cast<uint32_t>(all);
  }

  void run(const KernelArgs& args) override {
    if (launch_.blocks == 0) return;
    for (const auto& [argument, operand] : sources_) {
      void* const address = operand < inputs_ ? args.inputs[operand] : args.outputs[operand - inputs_];
      arguments_[argument] = reinterpret_cast<uint64_t>(address);
    }
    args.stream->launch(*function_, launch_, arguments_);
  }

 private:
  std::shared_ptr<device::Module> module_;
  const device::Function* function_;
  size_t inputs_;
  std::vector<std::pair<size_t, size_t>> sources_;  // argument, and which operand of the combo it is
  std::vector<uint64_t> arguments_;
  device::Launch launch_;
};

class NvrtcLauncher final : public Launcher {
 public:
  std::string name() const override { return "nvrtc"; }

  std::unique_ptr<Kernel> make(const StepShape& shape, const Tactic& tactic) const override {
    if (shape.device == nullptr) return nullptr;
    const int architecture = shape.device->info().architecture;
    const Cubin cubin = pick(tactic, architecture);
    if (cubin.code == nullptr) {
      throw Error(Code::ENGINE_INCOMPATIBLE,
                  "the engine has code for " + architectures_of(tactic) + ", the device " + shape.device->info().name +
                      " is sm_" + std::to_string(architecture),
                  "deepjit tune compiles it for this one, and so does a build with --target sm_" +
                      std::to_string(architecture));
    }
    auto module = module_of(*shape.device, *cubin.code);
    if (const Tensor* launch = packed_data(tactic, kLaunchFormat)) {
      return std::make_unique<GpuKernel>(shape, std::move(module), read_launch_data(*launch));
    }
    if (const Tensor* launch = packed_data(tactic, kComboFormat)) {
      return std::make_unique<ComboKernel>(shape, std::move(module), read_combo_data(*launch));
    }
    if (const Tensor* launch = packed_data(tactic, kContractFormat)) {
      return make_contract_kernel(shape, std::move(module), *launch);
    }
    for (const PackedOperand& packed : tactic.packed) {
      if (packed.input < 0 && packed.format.starts_with("cuda ")) {
        throw Error(Code::ENGINE_INCOMPATIBLE,
                    "a generated kernel's launch data, \"" + packed.format + "\", are of another version of deepjit",
                    "build the engine again with this one");
      }
    }
    throw Error(Code::ENGINE_RANGE, "a generated kernel has no launch data");
  }

  Tensor unpack(const PackedOperand& packed, const TensorDesc& plain) const override {
    return unpack_weights(WeightLayout::parse(packed.format), packed.data, plain);
  }
};

}  // namespace

}  // namespace nvrtc_gpu

const Launcher& nvrtc_launcher() {
  static const nvrtc_gpu::NvrtcLauncher launcher;
  return launcher;
}

}  // namespace deepjit
