// The reference provider: runs an op's own reference implementation (ops/op.h) on the step's operands.
//
// It can run every op with an `evaluate`, at any shape. The step must outlive the kernel.
#include <new>

#include "kernels/kernel.h"
#include "kernels/reference/launch_region.h"
#include "ops/op.h"

namespace deepjit {
namespace {

// Temporary memory of one kernel: block i serves the i-th request of a run, so the second run of the same
// shapes finds all blocks large enough.
class ScratchBlocks {
 public:
  ScratchBlocks() = default;
  ScratchBlocks(const ScratchBlocks&) = delete;
  ScratchBlocks& operator=(const ScratchBlocks&) = delete;
  ~ScratchBlocks() {
    for (const Block& block : blocks_) release(block);
  }

  void reset() { next_ = 0; }

  void* take(size_t bytes) {
    if (next_ == blocks_.size()) blocks_.emplace_back();
    Block& block = blocks_[next_++];
    if (block.bytes < bytes || block.data == nullptr) {
      release(block);
      block = Block{};
      size_t size = bytes == 0 ? 64 : bytes;
      block.data = ::operator new (size, std::align_val_t{64}, std::nothrow);
      if (block.data == nullptr) {
        throw Error(Code::HOST_OOM, "cannot allocate " + std::to_string(size) + " bytes of temporary memory");
      }
      block.bytes = size;
    }
    return block.data;
  }

 private:
  struct Block {
    void* data = nullptr;
    size_t bytes = 0;
  };
  static void release(const Block& block) {
    if (block.data != nullptr) ::operator delete (block.data, std::align_val_t{64});
  }

  std::vector<Block> blocks_;
  size_t next_ = 0;
};

class ReferenceContext : public EvalContext {
 public:
  explicit ReferenceContext(const StepShape& shape) : step_(shape.step), outputs_(shape.outputs) {
    for (const TensorDesc& desc : shape.inputs) inputs_.push_back(TensorView{desc.dtype, desc.dims, nullptr});
    output_data_.resize(outputs_.size(), nullptr);
  }

  void bind(const KernelArgs& args) {
    for (size_t i = 0; i < inputs_.size(); ++i) inputs_[i].data = args.inputs[i];
    for (size_t i = 0; i < outputs_.size(); ++i) output_data_[i] = args.outputs[i];
    scratch_.reset();
  }

  const Attributes& attrs() const override { return step_->attrs; }
  int num_inputs() const override { return static_cast<int>(inputs_.size()); }
  bool has_input(int i) const override {
    return i >= 0 && i < num_inputs() && inputs_[static_cast<size_t>(i)].dtype != DType::UNDEFINED;
  }
  const TensorView& input(int i) const override { return inputs_.at(static_cast<size_t>(i)); }
  int num_outputs() const override { return static_cast<int>(outputs_.size()); }
  bool has_output(int i) const override {
    return i >= 0 && i < num_outputs() && outputs_[static_cast<size_t>(i)].dtype != DType::UNDEFINED;
  }

  TensorView output(int i, DType dtype, const Dims& dims) override {
    const TensorDesc& wanted = outputs_.at(static_cast<size_t>(i));
    if (wanted.dtype != dtype || !(wanted.dims == dims)) {
      throw Error(Code::INTERNAL, step_->op + " output " + std::to_string(i) + ": the implementation made " +
                                      std::string(dtype_name(dtype)) + dims.to_string() + ", planned was " +
                                      std::string(dtype_name(wanted.dtype)) + wanted.dims.to_string());
    }
    return TensorView{dtype, dims, output_data_[static_cast<size_t>(i)]};
  }

  void* scratch(size_t bytes) override { return scratch_.take(bytes); }

 private:
  const Step* step_;
  std::vector<TensorView> inputs_;
  std::vector<TensorDesc> outputs_;
  std::vector<void*> output_data_;
  ScratchBlocks scratch_;
};

class ReferenceKernel : public Kernel {
 public:
  ReferenceKernel(const StepShape& shape, const OpDef& def) : def_(def), context_(shape) {}

  void run(const KernelArgs& args) override {
    context_.bind(args);
    def_.evaluate(context_);
  }

 private:
  const OpDef& def_;
  ReferenceContext context_;
};

class ReferenceLauncher : public Launcher {
 public:
  std::string name() const override { return "reference"; }

  std::unique_ptr<Kernel> make(const StepShape& shape, const Tactic& tactic) const override {
    if (!shape.body.empty()) return make_region_kernel(shape, tactic);
    const OpDef* def = op_registry().find(shape.step->op);
    if (def == nullptr || !def->evaluate) return nullptr;
    return std::make_unique<ReferenceKernel>(shape, *def);
  }

  Tensor unpack(const PackedOperand&, const TensorDesc&) const override {
    throw Error(Code::INTERNAL, "the reference provider packs no operands");
  }
};

}  // namespace

const Launcher& reference_launcher() {
  static const ReferenceLauncher launcher;
  return launcher;
}

}  // namespace deepjit
