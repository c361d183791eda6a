#include "cuda_run_util.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <iostream>
#include <sstream>

#include "codegen/cuda/nvrtc.h"
#include "guarded_memory.h"
#include "kernels/launch_words.h"
#include "kernels/nvrtc/offer_data.h"

namespace deepjit {

namespace {

using Launch = EmulatedLaunch;

struct Way {
  bool backwards;
  bool at_end;
  bool with_row_buffers;
};
constexpr Way kWays[] = {{false, false, true}, {true, true, true}, {false, true, false}};
constexpr int64_t kBlocks = 3;  // fewer than find work: each block then takes several shares

// The bytes of an output; every NaN is the same, since the CPU gives it the sign and bits of either operand.
std::string without_nan_bits(const TensorDesc& desc, const void* data) {
  std::string bytes(static_cast<const char*>(data), static_cast<size_t>(desc.bytes()));
  if (!is_float(desc.dtype)) return bytes;
  const std::vector<double> values = to_f64(TensorView{desc.dtype, desc.dims, const_cast<void*>(data)});
  const size_t size = dtype_size(desc.dtype);
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isnan(values[i])) std::memset(bytes.data() + i * size, 0xff, size);
  }
  return bytes;
}

// A kernel, or several in one launch.
class EmulatedKernel final : public Kernel {
 public:
  using Part = nvrtc_gpu::ComboData::Part;

  EmulatedKernel(std::string name, Launch launch, const std::vector<Part>& parts, bool combo, const StepShape& shape)
      : name_(std::move(name)), launch_(launch) {
    for (const TensorDesc& d : shape.inputs) sizes_.push_back(bytes_of(d));
    inputs_ = sizes_.size();
    for (const TensorDesc& d : shape.outputs) sizes_.push_back(bytes_of(d));
    outputs_ = shape.outputs;
    for (const Part& part : parts) {
      add_part(part, combo ? part.at.step_of(shape) : shape, combo);
    }
    threads_ = static_cast<int>(parts.front().launch.threads);
    if (combo) numbers_.insert(numbers_.end(), part_blocks_.begin(), part_blocks_.end());
    arguments_.insert(arguments_.end(), part_blocks_.size() * (combo ? 1 : 0), -1);
  }

  void run(const KernelArgs& args) override {
    std::vector<std::string> results;
    for (const Way& way : kWays) results.push_back(run_in(way, args));
    if (fault_ != 0) {
      fault_ = 0;
      throw Error(Code::INDEX_RANGE, name_ + " meets an index outside");
    }
    if (!std::equal(results.begin() + 1, results.end(), results.begin())) {
      throw Error(Code::INTERNAL, name_ + " gives different results in different ways to run it");
    }
  }

 private:
  static size_t bytes_of(const TensorDesc& d) {
    return d.dtype == DType::UNDEFINED ? 0 : static_cast<size_t>(d.bytes());
  }

  void add_part(const Part& part, const StepShape& step, bool combo) {
    for (size_t i = 0; i < step.inputs.size() + step.outputs.size(); ++i) {
      arguments_.push_back(combo ? static_cast<int>(part.at.operands.at(i)) : static_cast<int>(i));
    }
    for (const Quantity& q : part.launch.params) numbers_.push_back(value_of(q, step));
    int64_t rows = 1;
    for (size_t i = 0; i + 1 < part.launch.extents.size(); ++i) rows *= value_of(part.launch.extents[i], step);
    const int64_t columns = value_of(part.launch.extents.back(), step);
    numbers_.push_back(rows);
    numbers_.push_back(columns);
    arguments_.insert(arguments_.end(), part.launch.params.size() + 2, -1);
    if (part.launch.checks) {
      numbers_.insert(numbers_.end(), {reinterpret_cast<long long>(&fault_), 1});
      arguments_.insert(arguments_.end(), 2, -1);
    }
    part_blocks_.push_back(std::min(kBlocks, nvrtc_gpu::useful_blocks(part.launch, rows, columns)));
    blocks_ += part_blocks_.back();
    shared_ = nvrtc_gpu::shared_bytes(part.launch, columns);
  }

  // The bytes of all outputs.
  std::string run_in(const Way& way, const KernelArgs& args) {
    std::vector<std::unique_ptr<GuardedMemory>> memory;
    std::vector<void*> addresses;
    for (size_t i = 0; i < sizes_.size(); ++i) {
      memory.push_back(std::make_unique<GuardedMemory>(sizes_[i], way.at_end));
      addresses.push_back(memory.back()->data());
      if (i < inputs_ && sizes_[i] > 0) std::memcpy(addresses[i], args.inputs[i], sizes_[i]);
    }
    std::vector<void*> pointers;
    auto number = numbers_.begin();
    for (int operand : arguments_) {
      pointers.push_back(operand >= 0 ? static_cast<void*>(&addresses[static_cast<size_t>(operand)]) : &*number++);
    }
    const char* fault = launch_(pointers.data(), static_cast<int>(blocks_), threads_,
                                way.with_row_buffers ? shared_ : 0, way.backwards ? 1 : 0);
    if (*fault != 0) throw Error(Code::INTERNAL, name_ + ": " + fault);
    std::string result;
    for (size_t i = 0; i < sizes_.size(); ++i) {
      if (!memory[i]->is_clean()) throw Error(Code::INTERNAL, name_ + " writes beside an operand");
      if (i < inputs_ || sizes_[i] == 0) continue;
      std::memcpy(args.outputs[i - inputs_], addresses[i], sizes_[i]);
      result += without_nan_bits(outputs_[i - inputs_], addresses[i]);
    }
    return result;
  }

  std::string name_;
  Launch launch_;
  std::vector<size_t> sizes_;  // of the operands
  std::vector<TensorDesc> outputs_;
  size_t inputs_ = 0;
  std::vector<int> arguments_;      // an operand, or -1 for the next number
  std::vector<long long> numbers_;  // params, rows, columns of each part; blocks of each
  std::vector<long long> part_blocks_;
  int fault_ = 0;
  int threads_ = 0;
  int64_t blocks_ = 0;
  int64_t shared_ = 0;
};

std::string read_file(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

}  // namespace

bool has_nvrtc() {
#ifdef __SANITIZE_ADDRESS__
  return false;
#else
  setenv("DEEPJIT_CUDA_PATH", DEEPJIT_TEST_VENV, 0);
  return !nvrtc::version().empty();
#endif
}

CudaOnCpu::CudaOnCpu() {
  std::string name = (std::filesystem::temp_directory_path() / "deepjit_cuda_XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw Error(Code::DISK_FULL, "no temporary folder");
  folder_ = name;
}

CudaOnCpu::~CudaOnCpu() {
  if (library_ != nullptr) dlclose(library_);
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

std::string CudaOnCpu::add(const KernelIr& kernel, const CudaMapping& mapping) {
  const CudaText text = emit_cuda_text(kernel, mapping);
  const nvrtc_gpu::LaunchData data = nvrtc_gpu::launch_data_of(kernel, mapping, text);
  return add(text.name, {text.source, {{{}, nvrtc_gpu::read_launch_data(nvrtc_gpu::write_launch_data(data))}}});
}

std::string CudaOnCpu::add(const std::string& name, Entry entry) {
  kernels_[name] = std::move(entry);
  return name;
}

std::string CudaOnCpu::add(const Tactic& tactic) {
  const Tensor* source = packed_data(tactic, nvrtc_gpu::kSourceFormat);
  const Tensor* launch = packed_data(tactic, nvrtc_gpu::kLaunchFormat);
  const Tensor* combo = packed_data(tactic, nvrtc_gpu::kComboFormat);
  check_internal(source != nullptr && (launch != nullptr || combo != nullptr), "a tactic without text or launch data");
  const std::string text(source->as<char>(), static_cast<size_t>(source->bytes()));
  if (combo != nullptr) {
    const nvrtc_gpu::ComboData data = nvrtc_gpu::read_combo_data(*combo);
    return add(data.name, {text, data.parts, true});
  }
  const nvrtc_gpu::LaunchData data = nvrtc_gpu::read_launch_data(*launch);
  return add(data.name, {text, {{{}, data}}});
}

std::string CudaOnCpu::all_text(const std::set<std::string>& chosen) const {
  std::string text;
  for (const auto& [name, entry] : kernels_) {
    if (!chosen.empty() && chosen.count(name) == 0) continue;
    text += "namespace of_" + name + " {\n" + entry.source + "}\n";
  }
  return text;
}

std::vector<std::string> CudaOnCpu::names() const {
  std::vector<std::string> out;
  for (const auto& [name, entry] : kernels_) out.push_back(name);
  return out;
}

void CudaOnCpu::compile() {
  std::string text = "#include \"" DEEPJIT_TEST_FOLDER "/codegen/cuda_emulation.h\"\n" + all_text({});
  for (const auto& [name, entry] : kernels_) {
    text += "extern \"C\" const char* launch_" + name +
            "(void** arguments, int blocks, int threads, long long shared, int backwards) {\n"
            "  return emulation::run(of_" +
            name + "::" + name + ", arguments, {blocks, threads, shared, backwards != 0});\n}\n";
  }
  const std::string source = folder_ + "/kernels.cpp";
  const std::string library = folder_ + "/kernels.so";
  const std::string log = folder_ + "/log";
  std::ofstream(source) << text;
  const std::string command = std::string(DEEPJIT_HOST_COMPILER) +
                              " -std=c++20 -O1 -fPIC -shared -ffp-contract=off -fno-strict-aliasing -w -o " + library +
                              " " + source + " > " + log + " 2>&1";
  if (std::system(command.c_str()) != 0) {
    throw Error(Code::INTERNAL, "the host's compiler refuses CUDA text: " + read_file(log).substr(0, 4000));
  }
  library_ = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library_ == nullptr) throw Error(Code::INTERNAL, std::string("kernels that do not load: ") + dlerror());
}

bool CudaOnCpu::check_by_nvrtc(const std::set<std::string>& chosen, const std::vector<int>& architectures) const {
  if (!has_nvrtc()) {
    std::cerr << kernels_.size() << " kernels are not compiled by NVRTC: it is not installed, or sanitizers watch\n";
    return false;
  }
  const std::string text = all_text(chosen);
  std::vector<std::future<nvrtc::Cubin>> cubins;
  for (int architecture : architectures) {
    cubins.push_back(std::async(std::launch::async,
                                [&text, architecture] { return nvrtc::compile(text, "kernels.cu", architecture); }));
  }
  for (auto& made : cubins) {
    const nvrtc::Cubin cubin = made.get();
    check_internal(cubin.log.empty(), "NVRTC warns: " + cubin.log.substr(0, 2000));
    check_internal(cubin.bytes.size() > 1000, "a cubin without code");
  }
  return true;
}

EmulatedLaunch CudaOnCpu::entry(const std::string& name) const {
  const auto launch = reinterpret_cast<Launch>(dlsym(library_, ("launch_" + name).c_str()));
  check_internal(launch != nullptr, "a kernel that was not compiled: " + name);
  return launch;
}

std::unique_ptr<Kernel> CudaOnCpu::make(const std::string& name, const StepShape& shape) const {
  const Launch launch = entry(name);
  const Entry& entry = kernels_.at(name);
  return std::make_unique<EmulatedKernel>(name, launch, entry.parts, entry.combo, shape);
}

}  // namespace deepjit
