// Tactic providers: who can run a step, and how.
//
// A provider has two sides. The build side (offer.cpp, linked into the compiler) says which tactics it
// offers for a step at concrete shapes, and packs constants for one. The run side (launch.cpp, linked into
// the runtime) turns a step and a tactic into a Kernel for concrete shapes. A Kernel is bound to shapes and
// operands' sizes, never to addresses, and is used by one thread at a time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/tensor.h"
#include "program/program.h"

namespace deepjit {

class KernelCache;

namespace device {
class Device;
class Stream;
}  // namespace device

// A step at concrete shapes. Omitted operands have dtype UNDEFINED.
struct StepShape {
  const Program* program = nullptr;  // the step's
  const Step* step = nullptr;
  std::vector<TensorDesc> inputs;
  std::vector<TensorDesc> outputs;
  std::vector<const Tensor*> constants;  // per input: its constant data, or nullptr
  int threads = 1;
  std::vector<StepShape> body;  // of a region: the steps that it stands for
  // For a GPU, else nullptr and none: where kernels launch (run side), and what to compile for (build side), such
  // as 90.
  device::Device* device = nullptr;
  std::vector<int> architectures = {};
  KernelCache* kernels = nullptr;  // build side: where compiled kernels are kept; nullptr: nowhere
};

// Addresses for one launch, one per input and output of the step (nullptr for omitted ones). On a device an input that
// the tactic packed is the packed data there.
struct KernelArgs {
  void* const* inputs = nullptr;
  void* const* outputs = nullptr;
  void* scratch = nullptr;           // scratch_bytes() bytes, 64-byte aligned (256 on a device)
  device::Stream* stream = nullptr;  // of a GPU: all addresses are the device's, and run() only launches
  // Of a GPU: pinned memory where a kernel that meets an index outside leaves 1 + the number of its step.
  int* fault = nullptr;
};

class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual size_t scratch_bytes() const { return 0; }
  // Throws Error for bad data (INDEX_RANGE). Must not allocate.
  virtual void run(const KernelArgs& args) = 0;
};

// The run side of a provider.
class Launcher {
 public:
  virtual ~Launcher() = default;
  virtual std::string name() const = 0;
  // A kernel for the step at these shapes, or nullptr when this tactic cannot run there (the caller then
  // uses the reference). Packed operands that do not fit the new shape are repacked inside.
  virtual std::unique_ptr<Kernel> make(const StepShape& shape, const Tactic& tactic) const = 0;
  // A packed operand back in its plain ONNX layout.
  virtual Tensor unpack(const PackedOperand& packed, const TensorDesc& plain) const = 0;
};

// What a provider answers at build.
struct Offer {
  std::vector<Tactic> tactics;  // without packed operands
  std::string reason;           // why there are none
  Why rule = Why::NONE;         // for a region: the ledger's rule for that
};

// The build side of a provider.
class Offerer {
 public:
  virtual ~Offerer() = default;
  virtual std::string name() const = 0;
  // The kind of device that its kernels run on: "cpu" or "cuda".
  virtual std::string device() const { return "cpu"; }
  // Of the provider and its library: a choice measured with one version is not reused with another.
  virtual std::string version() const { return "1"; }
  // Of a library that takes its time to load and only matters where kernels can be measured: asked only there.
  virtual std::string measured_with() const { return ""; }
  virtual Offer offer(const StepShape& shape) const = 0;
  // Fills tactic.packed from shape.constants.
  virtual void pack(const StepShape& shape, Tactic& tactic) const = 0;
  // Puts the code that pack() will need into shape.kernels, where it has to be generated. Several threads may call it
  // at once.
  virtual void compile(const StepShape& /*shape*/, const Tactic& /*tactic*/) const {}
};

// The lists; each provider is one line in launchers.cpp and one in offerers.cpp.
const std::vector<const Launcher*>& launchers();
const Launcher* find_launcher(const std::string& name);
const std::vector<const Offerer*>& offerers();

// One line a provider.
const Launcher& reference_launcher();
const Launcher& onednn_launcher();
const Launcher& llvm_launcher();
const Launcher& nvrtc_launcher();
const Launcher& cublaslt_launcher();
const Launcher& cudnn_launcher();
const Offerer& reference_offerer();
const Offerer& onednn_offerer();
const Offerer& llvm_offerer();
const Offerer& nvrtc_offerer();
const Offerer& cublaslt_offerer();
const Offerer& cudnn_offerer();

}  // namespace deepjit
