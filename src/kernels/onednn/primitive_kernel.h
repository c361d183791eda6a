// A Kernel made of oneDNN primitives, run one after the other.
//
// The family files build one: they declare slots (a memory each: an operand of the step, a temporary, a constant),
// then add primitives over the slots, and plain functions where oneDNN has no primitive. run() only sets
// addresses and executes.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "kernels/kernel.h"
#include "kernels/onednn/memory.h"

namespace deepjit::onednn {

using ArgList = std::vector<std::pair<int, int>>;  // DNNL_ARG_..., slot

// Sets OpenMP's thread count, and restores it; 0 leaves it as it is.
class ThreadScope {
 public:
  explicit ThreadScope(int threads);
  ~ThreadScope();
  ThreadScope(const ThreadScope&) = delete;
  ThreadScope& operator=(const ThreadScope&) = delete;

 private:
  int before_ = 0;
};

class PrimitiveKernel : public Kernel {
 public:
  // Runs on one thread. The primitives must be made so too.
  void set_serial() { serial_ = true; }

  int input(int k, const memory::desc& desc);
  int output(int k, const memory::desc& desc);
  int temporary(const memory::desc& desc);        // valid within one run
  int alias(int slot, const memory::desc& desc);  // the same bytes under another desc
  // The bytes of `slot` from `offset` on.
  int part(int slot, const memory::desc& desc, size_t offset);
  // Constant bytes in layout `desc`. A format other than "" lets pack() save them as operand `input`.
  int constant(const memory::desc& desc, Tensor data, int input = -1, std::string format = "");

  const memory::desc& desc(int slot) const { return slots_[static_cast<size_t>(slot)].desc; }

  // Adds a primitive. Its scratchpad comes from the kernel's scratch.
  template <typename Primitive, typename PrimitiveDesc>
  void add(const PrimitiveDesc& pd, const ArgList& args) {
    add_stage(Primitive(pd), args, pd.scratchpad_desc());
  }
  // The slot's data in layout `to`: the slot itself when it has that layout, else a copy made in every run.
  int reordered(int slot, const memory::desc& to);
  // Adds a copy from slot to slot.
  void copy(int from, int to);

  // Adds a function from slot to slot. It must not allocate.
  using Function = std::function<void(const void* from, void* to)>;
  void add_function(Function function, int from, int to);

  // What pack() saves.
  std::vector<PackedOperand> packed_operands() const;

  size_t scratch_bytes() const override { return temporaries_bytes_ + scratchpad_bytes_; }
  void run(const KernelArgs& args) override;

 private:
  enum class Where { INPUT, OUTPUT, SCRATCH, CONSTANT };
  struct Slot {
    Where where;
    size_t index;   // operand
    size_t offset;  // in the operand or in the scratch
    memory::desc desc;
    memory mem;
    void* address;  // what mem points to
    Tensor data;
    int packed_input = -1;
    std::string format;
  };
  struct Stage {
    dnnl::primitive primitive;
    std::vector<dnnl_exec_arg_t> args;
    memory scratchpad;
    Function function = nullptr;  // instead of a primitive
    int from = -1, to = -1;
  };
  int add_slot(Where where, size_t index, size_t offset, const memory::desc& desc, void* data);
  void set_addresses(const KernelArgs& args);
  void add_stage(dnnl::primitive primitive, const ArgList& args, const memory::desc& scratchpad);

  std::vector<Slot> slots_;
  std::vector<Stage> stages_;
  size_t temporaries_bytes_ = 0;
  size_t scratchpad_bytes_ = 0;
  bool serial_ = false;
  void* scratch_ = nullptr;  // of the last run
};

// Attributes that every primitive here is made with: user scratchpad, strict arithmetic.
dnnl::primitive_attr base_attr();

// A constant operand k is one with a packed form in the tactic or with plain constant data.
bool is_constant(const StepShape& shape, const Tactic& tactic, int k);
bool has_input(const StepShape& shape, int k);
inline const TensorDesc& in(const StepShape& shape, int k) { return shape.inputs[static_cast<size_t>(k)]; }
inline const TensorDesc& out(const StepShape& shape, int k) { return shape.outputs[static_cast<size_t>(k)]; }
// Plain constant data of operand k, or nullptr.
const Tensor* constant_data(const StepShape& shape, int k);

// A change of plain weights that no layout expresses. It is named at the front of the packed operand's text.
struct WeightsTransform {
  std::string prefix;                          // "lstm/"
  Tensor (*forward)(const Tensor&) = nullptr;  // from the ONNX form to oneDNN's
  Tensor (*back)(const Tensor&) = nullptr;
};

// Operand k in layout `wanted`; `plain` is its ONNX layout in the primitive's logical dims. A constant is
// reordered now (or taken from the packed form), anything else in every run. Subnormal constants become 0.
int weights(PrimitiveKernel& kernel, const StepShape& shape, const Tactic& tactic, int k, const memory::desc& plain,
            const memory::desc& wanted, const WeightsTransform& transform = {});

}  // namespace deepjit::onednn
