// What stands behind the public Context: the runtime's, and what a run's inputs and outputs are kept in.
#pragma once

#include "api/internal.h"
// internal.h comes first
#include <atomic>

#include "api/impl.h"
#include "api/values.h"

namespace deepjit {
inline namespace v1 {

struct DeviceMemory::Block {
  explicit Block(std::shared_ptr<DeviceBlock> held) : block(std::move(held)) {}
  std::shared_ptr<DeviceBlock> block;
};

struct Context::Impl {
  Impl(std::shared_ptr<const Engine::Impl> e, int threads);

  void take_inputs(const std::vector<Input>& inputs);
  void take_input(const Input& input);
  void take_targets(const std::vector<Target>& given);
  OutputPlace place_of(size_t output, const TensorDesc& desc) const;
  void run(RunRequest& request);
  void run(const std::vector<Input>& inputs, const RunOptions& options, bool wait);

  std::shared_ptr<const Engine::Impl> engine;
  internal::Context context;
  std::atomic<bool> running{false};
  std::vector<TensorView> fed;
  std::vector<Side> sides;             // of fed
  std::vector<const Target*> targets;  // of the run that is on, by output
  std::vector<RunOutput> results;
  std::vector<Tensor> collections;  // inputs of the run that is on
  std::vector<Output> outputs;
  std::vector<OutputElements> elements;  // of outputs that are sequences or optionals
};

}  // namespace v1
}  // namespace deepjit
