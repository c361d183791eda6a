// A graph on a device: what cuDNN proposes for it, and one engine at work.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "kernels/cudnn/choice.h"
#include "kernels/cudnn/graph.h"
#include "kernels/cudnn/object.h"

namespace deepjit::cudnn {

constexpr int64_t kMostScratch = int64_t{32} << 20;

// A handle of cuDNN, which one thread at a time may use.
struct SharedHandle {
  std::mutex mutex;
  Handle handle = nullptr;
};

// SHARED: the device's one, of all plans that run. ALONE: one that no other plan has meanwhile, so that threads compile
// side by side; it serves the next one afterwards.
enum class HandleUse { SHARED, ALONE };

// Throws LIBRARY_MISSING where there is no cuDNN, INTERNAL with the library's words where it does not take the graph.
class Plan {
 public:
  // The device must outlive the plan.
  Plan(device::Device& device, Graph graph, HandleUse use = HandleUse::SHARED);
  ~Plan();
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  // Engines that the library proposes, best guess first: without those that give up precision for which the build has
  // not asked, or whose results vary from run to run.
  std::vector<EngineChoice> proposals(size_t most) const;
  // Compiles what it needs. False when this library or GPU does not have it, or when it takes too much scratch memory.
  bool choose(const EngineChoice& choice);
  // Takes the first proposal that works; false when there is none.
  bool choose_first();

  // The chosen plan as text that the same version of the library takes back, with compiled kernels in it.
  std::string save() const;
  // False when the library does not take it.
  bool load(const std::string& text);

  size_t scratch_bytes() const { return static_cast<size_t>(scratch_); }
  void run(const KernelArgs& args);

 private:
  // What the library makes of the graph; the parts must live as long as it is used.
  using Parts = std::vector<BackendObject>;
  BackendObject make_graph();
  BackendObject make_tensor(size_t index) const;
  BackendObject make_convolution(const Parts& tensors);
  BackendObject make_product(const Parts& tensors);
  BackendObject make_pool(const Parts& tensors);
  BackendObject make_attention(const Parts& tensors) const;
  BackendObject make_operation(const Parts& tensors);
  BackendObject make_pointwise(const PointwiseSpec& spec, const Parts& tensors);
  void append_proposals(int mode, size_t most, std::vector<EngineChoice>& out) const;
  bool is_welcome(const BackendObject& engine) const;
  bool accept(BackendObject plan, Parts parts);
  void set_addresses(const KernelArgs& args);

  device::Device& device_;
  Graph graph_;
  const Library& library_;
  std::shared_ptr<SharedHandle> handle_;
  Parts graph_parts_;
  BackendObject operations_;  // the graph as the library has it
  Parts plan_parts_;
  BackendObject plan_;
  int64_t scratch_ = 0;
  std::vector<int64_t> ids_;  // of tensors in memory
  std::vector<void*> addresses_;
  void* scratch_address_ = nullptr;
  BackendObject pack_;  // of the addresses of the last run
};

}  // namespace deepjit::cudnn
