// The run side of generated CPU kernels: maps their code and calls it. Needs no LLVM.
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include "base/cpu.h"
#include "base/small_types.h"
#include "base/visit.h"
#include "kernels/launch_words.h"
#include "kernels/llvm/launch_data.h"
#include "ops/index/index.h"

namespace deepjit {

namespace llvm_cpu {

namespace {

using Function = void (*)(void* const*, const int64_t*, int64_t, int64_t, int64_t, int64_t, void*);

// Code in memory that may be executed and not written.
class Executable {
 public:
  explicit Executable(const std::string& code) : bytes_(code.size()) {
    memory_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory_ == MAP_FAILED) throw Error(Code::HOST_OOM, "cannot map memory for generated code");
    std::memcpy(memory_, code.data(), bytes_);
    if (mprotect(memory_, bytes_, PROT_READ | PROT_EXEC) != 0) {
      munmap(memory_, bytes_);
      throw Error(Code::HOST_OOM, "the system does not let generated code be executed");
    }
  }
  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;
  ~Executable() { munmap(memory_, bytes_); }
  const std::byte* at(int64_t offset) const { return static_cast<const std::byte*>(memory_) + offset; }

 private:
  void* memory_ = nullptr;
  size_t bytes_;
};

// Equal code is mapped once a process.
std::shared_ptr<const Executable> executable(const Tensor& code) {
  static std::mutex mutex;
  static std::map<std::string, std::weak_ptr<const Executable>> mapped;
  std::string bytes(code.as<char>(), static_cast<size_t>(code.bytes()));
  const std::lock_guard<std::mutex> lock(mutex);
  if (const auto entry = mapped.find(bytes); entry != mapped.end()) {
    if (auto found = entry->second.lock()) return found;
  }
  std::erase_if(mapped, [](const auto& entry) { return entry.second.expired(); });  // of engines that are gone
  auto made = std::make_shared<const Executable>(bytes);
  mapped.emplace(std::move(bytes), made);
  return made;
}

// An input whose elements index a dim of size `limit`, from its front or its end.
struct Indices {
  size_t input;
  DType type;
  int64_t count;
  int64_t limit;
  const Step* step;  // that reads by them

  // Throws Error(INDEX_RANGE) where one lies outside.
  void check(const void* data) const {
    visit_integer(type, step->op, [&]<typename T>() { check(static_cast<const T*>(data)); });
  }

 private:
  template <typename T>
  void check(const T* data) const {
    if (count == 0) return;
    const auto [least, most] = std::minmax_element(data, data + count);
    if (*least >= -limit && *most < limit) return;
    try {
      for (int64_t i = 0; i < count; ++i) wrap_index(step->op, static_cast<int64_t>(data[i]), limit);
    } catch (const Error& e) {
      throw e.with_prefix("node \"" + step->name + "\" (" + step->op + "): ");
    }
  }
};

constexpr int64_t kVector = 16;            // floats that row buffers are rounded up to
constexpr int64_t kParallelWork = 200000;  // rough instructions below which one thread does it all

// One generated kernel at concrete shapes: how much work it is, and how many threads share it.
class Part {
 public:
  Part(const StepShape& shape, const Executable& code, const LaunchData& data)
      : function_(reinterpret_cast<Function>(reinterpret_cast<uintptr_t>(code.at(data.entry)))) {
    columns_ = value_of(data.extents.back(), shape);
    for (size_t i = 0; i + 1 < data.extents.size(); ++i) rows_ = checked_mul(rows_, value_of(data.extents[i], shape));
    const int64_t places = value_of(data.row, shape);
    const bool lanes = !(data.row == Quantity{});
    const int64_t row = lanes ? checked_mul(places, kVector) : (columns_ + kVector - 1) / kVector * kVector;
    scratch_ = static_cast<size_t>(checked_mul(data.row_buffers, row)) * sizeof(float);
    const double work = static_cast<double>(rows_) * static_cast<double>(columns_) * static_cast<double>(places) *
                        static_cast<double>(data.cost) / kVector;
    const auto useful = static_cast<int64_t>(work / (kParallelWork / 2.0));
    threads_ = static_cast<int>(std::clamp<int64_t>(useful, 1, shape.threads));
    if (threads_ > 1) split(data.reduces);
    take_indices(data, shape);
  }

  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }
  int threads() const { return threads_; }
  bool indexes() const { return !indices_.empty(); }
  size_t scratch_bytes() const { return scratch_ * static_cast<size_t>(threads_); }

  // Throws Error(INDEX_RANGE) before it writes anything.
  void run(void* const* operands, const int64_t* params, void* scratch) const {
    for (const Indices& indices : indices_) indices.check(operands[indices.input]);
    if (rows_ == 0) return;
    if (threads_ == 1) return function_(operands, params, 0, rows_, 0, columns_, scratch);
      // OpenMP may give fewer threads than asked for: each then takes several shares.
#pragma omp parallel for num_threads(threads_) schedule(static, 1)
    for (int t = 0; t < threads_; ++t) {
      void* own = static_cast<std::byte*>(scratch) + scratch_ * static_cast<size_t>(t);
      const int64_t from = std::min(t * share_, by_rows_ ? rows_ : columns_);
      const int64_t to = std::min((t + 1) * share_, by_rows_ ? rows_ : columns_);
      if (from < to && by_rows_) function_(operands, params, from, to, 0, columns_, own);
      if (from < to && !by_rows_) function_(operands, params, 0, rows_, from, to, own);
    }
  }

 private:
  void split(bool reduces) {
    by_rows_ = reduces || rows_ >= 4 * threads_;
    if (by_rows_) {
      share_ = (rows_ + threads_ - 1) / threads_;
    } else {
      share_ = ((columns_ + threads_ - 1) / threads_ + 63) / 64 * 64;
    }
  }

  void take_indices(const LaunchData& data, const StepShape& shape) {
    for (size_t i = 0; i < data.index_inputs.size(); ++i) {
      const auto input = static_cast<size_t>(data.index_inputs[i]);
      const DType type = input < shape.inputs.size() ? shape.inputs[input].dtype : DType::UNDEFINED;
      if (!is_integer(type) || is_packed(type) || type == DType::UINT64) {
        throw Error(Code::ENGINE_RANGE, "a generated kernel is to index by what is no index");
      }
      const auto op = static_cast<size_t>(data.index_ops[i]);
      if (op >= shape.body.size())
        throw Error(Code::ENGINE_RANGE, "a generated kernel indexes for no step of its region");
      const int64_t limit = value_of(data.index_limits[i], shape);
      indices_.push_back({input, type, shape.inputs[input].count(), limit, shape.body[op].step});
    }
  }

  Function function_;
  std::vector<Indices> indices_;
  int64_t rows_ = 1;
  int64_t columns_ = 1;
  int64_t share_ = 0;
  bool by_rows_ = true;
  size_t scratch_ = 0;  // of one thread
  int threads_ = 1;
};

class LlvmKernel final : public Kernel {
 public:
  LlvmKernel(const StepShape& shape, std::shared_ptr<const Executable> code, const LaunchData& data)
      : code_(std::move(code)),
        inputs_(shape.inputs.size()),
        operands_(inputs_ + shape.outputs.size()),
        part_(shape, *code_, data) {
    for (const Quantity& q : data.params) params_.push_back(value_of(q, shape));
  }

  size_t scratch_bytes() const override { return part_.scratch_bytes(); }

  void run(const KernelArgs& args) override {
    std::copy(args.inputs, args.inputs + inputs_, operands_.begin());
    std::copy(args.outputs, args.outputs + (operands_.size() - inputs_),
              operands_.begin() + static_cast<std::ptrdiff_t>(inputs_));
    part_.run(operands_.data(), params_.data(), args.scratch);
  }

 private:
  std::shared_ptr<const Executable> code_;
  size_t inputs_;
  std::vector<void*> operands_;
  std::vector<int64_t> params_;
  Part part_;
};

// Several kernels, one after another: by one call while all are small, else each that is large on several threads,
// and each that indexes once its indices are found to lie inside.
class ComboKernel final : public Kernel {
 public:
  ComboKernel(const StepShape& shape, std::shared_ptr<const Executable> code, const ComboData& data)
      : code_(std::move(code)), inputs_(shape.inputs.size()), given_(inputs_ + shape.outputs.size()) {
    for (const ComboData::Part& own : data.parts) {
      const StepShape& step = own.at.step_of(shape);
      places_.push_back({Part(step, *code_, own.launch), sources_.size(), params_.size()});
      sources_.insert(sources_.end(), own.at.operands.begin(), own.at.operands.end());
      for (const Quantity& q : own.launch.params) params_.push_back(value_of(q, step));
      const Part& part = places_.back().part;
      params_.push_back(part.rows());
      params_.push_back(part.columns());
      scratch_ = std::max(scratch_, part.scratch_bytes());
      // Indices may be what a part before wrote: they are looked through right before they are used.
      alone_ = alone_ && part.threads() == 1 && !part.indexes();
    }
    operands_.resize(sources_.size());
    function_ = reinterpret_cast<Joint>(reinterpret_cast<uintptr_t>(code_->at(data.entry)));
  }

  size_t scratch_bytes() const override { return scratch_; }

  void run(const KernelArgs& args) override {
    // Between runs of one binding addresses rarely change.
    if (!std::equal(args.inputs, args.inputs + inputs_, given_.begin()) ||
        !std::equal(given_.begin() + static_cast<std::ptrdiff_t>(inputs_), given_.end(), args.outputs)) {
      std::copy(args.inputs, args.inputs + inputs_, given_.begin());
      std::copy_n(args.outputs, given_.size() - inputs_, given_.begin() + static_cast<std::ptrdiff_t>(inputs_));
      for (size_t i = 0; i < sources_.size(); ++i) operands_[i] = given_[sources_[i]];
    }
    if (alone_) return function_(operands_.data(), params_.data(), args.scratch);
    for (const Place& p : places_) p.part.run(operands_.data() + p.operand, params_.data() + p.param, args.scratch);
  }

 private:
  using Joint = void (*)(void* const*, const int64_t*, void*);
  struct Place {
    Part part;
    size_t operand, param;  // where its own begin
  };

  std::shared_ptr<const Executable> code_;
  Joint function_ = nullptr;
  size_t inputs_;
  std::vector<void*> given_;     // the combo's operands
  std::vector<size_t> sources_;  // which operand of the combo each operand of a part is
  std::vector<void*> operands_;
  std::vector<int64_t> params_;
  std::vector<Place> places_;
  size_t scratch_ = 0;
  bool alone_ = true;  // no part is worth a second thread, or has indices to look through
};

class LlvmLauncher final : public Launcher {
 public:
  std::string name() const override { return "llvm"; }

  std::unique_ptr<Kernel> make(const StepShape& shape, const Tactic& tactic) const override {
    const Tensor* code = packed_data(tactic, kCodeFormat);
    if (code == nullptr || !cpu_runs(tactic.variant)) return nullptr;
    if (const Tensor* launch = packed_data(tactic, kLaunchFormat)) {
      const LaunchData data = read_launch_data(*launch);
      check_entry(data.entry, *code);
      return std::make_unique<LlvmKernel>(shape, executable(*code), data);
    }
    const Tensor* launch = packed_data(tactic, kComboFormat);
    if (launch == nullptr) return nullptr;
    const ComboData data = read_combo_data(*launch);
    check_entry(data.entry, *code);
    for (const ComboData::Part& part : data.parts) check_entry(part.launch.entry, *code);
    return std::make_unique<ComboKernel>(shape, executable(*code), data);
  }

  Tensor unpack(const PackedOperand&, const TensorDesc&) const override {
    throw Error(Code::INTERNAL, "generated kernels pack no operands");
  }

 private:
  static void check_entry(int64_t entry, const Tensor& code) {
    if (entry >= code.bytes()) throw Error(Code::ENGINE_RANGE, "a generated kernel starts outside its code");
  }
};

}  // namespace

}  // namespace llvm_cpu

const Launcher& llvm_launcher() {
  static const llvm_cpu::LlvmLauncher launcher;
  return launcher;
}

}  // namespace deepjit
